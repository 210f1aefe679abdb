"""The kubectl plugin: commands, renderers, stores and the commit protocol around the pure `planner`."""

__version__ = "0.1.0"
