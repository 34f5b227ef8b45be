"""A stand-in for SGLang's CUDA kernels, of which there is no build for processors in package registries.

SGLang imports it when it starts, and needs none of it on the CPU with `--attention-backend torch_native`. Every name is there,
in this module and in any below it, and none can be called.
"""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "9999.0.0"


class Kernel:
    """A kernel, or a part of a module, that is not there."""

    def __init__(self, path):
        self.__name__ = path

    def __getattr__(self, name):
        return _named(f"{self.__name__}.{name}")

    def __call__(self, *arguments, **options):
        raise NotImplementedError(f"{self.__name__} runs on a GPU alone")


def _named(path):
    name = path.rpartition(".")[2]
    if name.startswith("__"):
        raise AttributeError(path)
    return Kernel(path)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any module below this one."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith(f"{__name__}."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: _named(f"{spec.name}.{name}")
        return module

    def exec_module(self, module):
        pass


def __getattr__(name):
    return _named(f"{__name__}.{name}")


sys.meta_path.append(Finder())
