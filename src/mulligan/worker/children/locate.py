"""Locates an app so that another process can load it: its modules, and its name in one of them."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import Any

import msgspec

SCRIPT = "__main__"
# As in multiprocessing: `if __name__ == "__main__":` must be false while a script is only read.
SCRIPT_READ_AS = "__mulligan_main__"


class ModuleLocation(msgspec.Struct, frozen=True):
    name: str
    file: str | None


class AppLocation(msgspec.Struct, frozen=True):
    modules: tuple[ModuleLocation, ...]
    module: str
    name: str


class ScriptRead(BaseException):
    """Raised where a script that is only read starts to use the app: its tasks are defined by then."""


_is_reading = False


def end_reading() -> None:
    """Stop a script that is only read. Called where an app starts to do work."""
    if _is_reading:
        raise ScriptRead


def locate_app(app: object, tasks: Mapping[str, Any], hooks: Iterable[Any] = ()) -> AppLocation | None:
    """The modules that hold the app, its tasks and its hooks; None when another process could not find the app."""
    found = [(module, name) for module, name in _holders({id(app)}) if _is_importable(module)]
    if not found:
        return None
    home, name = found[0]
    wanted = {id(task) for task in tasks.values()}
    functions = [*(task.function for task in tasks.values()), *hooks]
    holders = {module for module, _ in _holders(wanted)} | {_defined_in(function) for function in functions}
    modules = (_module(module) for module in {home: None, **dict.fromkeys(sorted(holders))} if _is_importable(module))
    return AppLocation(tuple(modules), _module(home).name, name)


def _holders(wanted: set[int]) -> Iterator[tuple[str, str]]:
    """Each module that holds one of these objects, with the object's name in it."""
    for module_name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", None)
        for name, value in list(held.items()) if isinstance(held, dict) else ():
            if id(value) in wanted:
                yield module_name, name


def _defined_in(function: Any) -> str:
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _is_importable(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and (name != SCRIPT or _module(name).name != SCRIPT or _file(module) is not None)


def _module(name: str) -> ModuleLocation:
    module = sys.modules[name]
    spec = getattr(module, "__spec__", None)
    # A script started by `python -m shop.tasks` can be imported as a module.
    name = spec.name if name == SCRIPT and spec is not None else name
    return ModuleLocation(name, _file(module))


def _file(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def load_app(home: AppLocation) -> Any:
    """Load the app in a process that has not imported it."""
    for module in home.modules:
        _load(module)
    return getattr(sys.modules[home.module], home.name)


def _load(module: ModuleLocation) -> None:
    if module.name == SCRIPT:
        assert module.file is not None
        _read_script(module.file)
        return
    try:
        import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != module.name or module.file is None:
            raise
        _from_file(module.name, module.file)


def _read_script(file: str) -> None:
    global _is_reading
    _is_reading = True
    try:
        _from_file(SCRIPT_READ_AS, file, also=SCRIPT)
    except ScriptRead:
        pass
    finally:
        _is_reading = False


def _from_file(name: str, file: str, *, also: str | None = None) -> None:
    spec = spec_from_loader(name, SourceFileLoader(name, file), origin=file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    if also is not None:
        sys.modules[also] = module
    spec.loader.exec_module(module)
