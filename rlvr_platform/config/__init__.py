"""The configuration tree: strict, frozen, documented, loadable without torch or Ray."""

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.loader import dump_config, load_config

__all__ = ["ExperimentConfig", "dump_config", "load_config"]
