"""Held-out suites."""

from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.data import Source


class SuiteConfig(Section):
    name: str = setting(doc="Name in metrics: eval/NAME/avg@k.", pattern=r"^[A-Za-z0-9_.-]+$")
    source: Source = setting(doc="Held-out prompts.")
    max_prompts: int = setting(512, "Prompts used, in order.", ge=1)
    samples: int = setting(1, "Completions a prompt (k of avg@k and pass@k).", ge=1)
    temperature: float = setting(1.0, "Sampling temperature; 0 is greedy.", ge=0)


class EvaluationConfig(Section):
    suites: tuple[SuiteConfig, ...] = setting((), "Suites, each evaluated before and after.")
    every_steps: int | None = setting(None, "Also evaluate every so many steps.", ge=1)
