from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class MulliganConfig(AppConfig):
    name = "mulligan.contrib.django"
    label = "mulligan"

    def ready(self) -> None:
        """Import the tasks of every installed app."""
        autodiscover_modules("tasks")
