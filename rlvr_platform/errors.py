"""Every error a user can meet: what was got, what was wanted, what to do."""

from rlvr_platform.secrets import masked


class RlvrError(Exception):
    """Root of all errors raised on purpose. Picklable, so that it crosses process boundaries.

    `exit_code` is the exit status of the command line: 2 for bad input or
    configuration, 3 for a cluster or device problem.
    """

    exit_code = 3

    def __init__(self, got: str, wanted: str = "", fix: str = "") -> None:
        got, wanted, fix = masked(got), masked(wanted), masked(fix)
        super().__init__(got, wanted, fix)
        self.got, self.wanted, self.fix = got, wanted, fix

    def __str__(self) -> str:
        lines = [self.got]
        if self.wanted:
            lines.append(f"  wanted: {self.wanted}")
        if self.fix:
            lines.append(f"  to fix: {self.fix}")
        return "\n".join(lines)


class ConfigError(RlvrError):
    """The experiment configuration is not legal."""

    exit_code = 2


class InputError(RlvrError):
    """A file, folder, model or data set that the user named cannot be used."""

    exit_code = 2


class ClusterError(RlvrError):
    """Ray, a device, or the space to run in is not there."""


class DeadlineError(RlvrError):
    """A wait on another process ran past its deadline."""


class SyncError(RlvrError):
    """A weight update did not arrive, or the engine cannot prove that it did."""


class NumericalError(RlvrError):
    """A value that must be finite is not."""


class VerifierError(RlvrError):
    """Too many rollouts came back without a verdict to go on."""


class EngineLost(RlvrError):
    """An inference engine is dead or does not answer; another one can take its place."""


class WeightsLost(RlvrError):
    """Published weights are gone with the learner that held them; they can be published again."""
