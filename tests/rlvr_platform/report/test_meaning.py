from rlvr_platform.report.meaning import describe, in_order
from rlvr_platform.telemetry.names import METRICS, PATTERNS


def test_every_registered_metric_has_its_own_meaning():
    for metric in METRICS:
        assert describe(metric.name) == metric


def test_every_pattern_describes_the_names_made_from_it():
    for pattern in PATTERNS:
        name = pattern.name.replace("SUITE", "gsm8k.v-2").replace("@k", "@16")
        found = describe(name)
        assert (found.name, found.unit, found.meaning) == (name, pattern.unit, pattern.meaning)


def test_a_name_that_is_not_registered_has_no_meaning():
    for name in ("nonsense", "eval/a/b/avg@2", "eval/avg@2", "eval/a/avg@k"):
        assert (describe(name).unit, describe(name).meaning) == ("", "")


def test_the_registry_gives_the_order_and_numbers_count_as_numbers():
    names = ["x/b", "eval/a/avg@16", "eval/a/avg@2", "x/a", "tokens/wasted", "reward/mean"]
    first = ["reward/mean", "tokens/wasted", "eval/a/avg@2", "eval/a/avg@16"]
    assert in_order(names) == [*first, "x/a", "x/b"]
