from apps.pages.command import main
from apps.screenshots.site import build

if __name__ == "__main__":
    main(build, "screenshots")
