"""Lists the packages: each top-level folder is a subpackage of ``tracetui``; pyproject.toml has everything else."""

from setuptools import find_namespace_packages, find_packages, setup

FOLDERS = ("analysis", "app", "collectors", "models", "parsers", "samples")
FOUND = find_packages(include=[pattern for folder in FOLDERS for pattern in (folder, f"{folder}.*")])
FOUND += find_namespace_packages(include=["samples.*"])  # recordings; setuptools would take them for forgotten packages

setup(
    packages=[f"tracetui.{name}" for name in FOUND],
    package_dir={f"tracetui.{name}": name.replace(".", "/") for name in FOUND},
    data_files=[("share/man/man1", ["docs/tracetui.1"])],
)
