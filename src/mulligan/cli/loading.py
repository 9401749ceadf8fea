"""Load the App that `MODULE:APP` names. The current folder is searched first."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from mulligan.app import App
from mulligan.errors import ConfigurationError, MulliganError
from mulligan.failure.redact import mask_secrets
from mulligan.values.file import special_file


def load_app(name: str) -> App:
    """Load the app that `shop.tasks:app` or `shop/tasks.py:app` names; raise ConfigurationError."""
    source, colon, attribute = name.rpartition(":")
    if not colon or not source or not attribute:
        raise ConfigurationError(f"{name!r} does not name an app: write MODULE:APP, such as 'shop.tasks:app'")
    module = _import(source)
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"{source!r} has no {attribute!r}; {_apps_in(module, source)}")
    if not isinstance(found, App):
        raise ConfigurationError(f"{name!r} is not an App but a {type(found).__name__}; {_apps_in(module, source)}")
    return found


def _apps_in(module: ModuleType, source: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"its apps are: {', '.join(f'{source}:{name}' for name in names)}" if names else "it has no App"


def _import(source: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    is_file = source.endswith(".py")
    try:
        return _from_file(Path(source)) if is_file else import_module(source)
    except MulliganError:
        raise
    except ModuleNotFoundError as error:
        raise _not_found(source, error.name or "") from error
    # Importing runs foreign code, which may raise anything or call sys.exit().
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"importing {source!r} raised {type(error).__name__}: {mask_secrets(str(error))}{_where(error)}"
        ) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = special_file(path) if path.exists() else None
        raise ConfigurationError(f"{str(path)!r} is {what}, not a file" if what else f"there is no file {str(path)!r}")
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem
    if name in sys.stdlib_module_names or name in sys.modules:
        name = f"mulligan_app_{name}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _not_found(source: str, missing: str) -> ConfigurationError:
    if missing and (source == missing or source.startswith(f"{missing}.")):
        return ConfigurationError(
            f"there is no module {missing!r}: looked in {str(Path.cwd())!r} and among the installed packages"
        )
    return ConfigurationError(f"importing {source!r} failed: it needs the module {missing!r}, which is not installed")


def _where(error: BaseException) -> str:
    frames = [] if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
