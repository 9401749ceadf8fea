"""`python -m apps.watermark` serves the application, with a worker."""

from apps.pages.command import main
from apps.watermark.site import build

main(build, "watermark")
