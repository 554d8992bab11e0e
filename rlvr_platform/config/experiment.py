"""The whole tree."""

from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.config.allocator import AllocatorConfig, UniformAllocator
from rlvr_platform.config.avspo import AvspoConfig, NoAvspo
from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.config.cluster import ClusterConfig
from rlvr_platform.config.data import DataConfig
from rlvr_platform.config.downsampling import DownsamplingConfig, NoDownsampling
from rlvr_platform.config.evaluation import EvaluationConfig
from rlvr_platform.config.learner import LearnerConfig
from rlvr_platform.config.model import ModelConfig, PretrainedModel
from rlvr_platform.config.replay import ReplayConfig
from rlvr_platform.config.rollout import RolloutConfig
from rlvr_platform.config.supervision import SupervisionConfig
from rlvr_platform.config.sync import SyncConfig
from rlvr_platform.config.telemetry import TelemetryConfig
from rlvr_platform.config.verifier import VerifierConfig

FLOAT32_TOLERANCE = 1e-3
HALF_PRECISION_TOLERANCE = 0.5
"""Largest legal probe difference by precision, nats. The probe is made of random tokens, which
get large logits: a 135M model in bfloat16 was 0.32 off with the right weights, where weights that
never arrived are off by several nats. Only float32 can prove a single small update."""


class ExperimentConfig(Section):
    """One experiment: everything that decides what a run computes."""

    name: str = setting("run", "Name of the run; part of its folder.", pattern=r"^[A-Za-z0-9_.-]+$")
    seed: int = setting(0, "Seed of data order and sampling.", ge=0)
    steps: int = setting(doc="Training steps.", ge=1)
    model: ModelConfig = setting(doc="The policy.")
    data: DataConfig = setting(doc="Prompts.")
    rollout: RolloutConfig = RolloutConfig()
    verifier: VerifierConfig = setting(doc="The judge.")
    allocator: AllocatorConfig = UniformAllocator()
    downsampling: DownsamplingConfig = NoDownsampling()
    avspo: AvspoConfig = NoAvspo()
    replay: ReplayConfig = ReplayConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    learner: LearnerConfig = LearnerConfig()
    sync: SyncConfig = SyncConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    supervision: SupervisionConfig = SupervisionConfig()
    cluster: ClusterConfig = ClusterConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def trust_remote_code(self) -> bool:
        """True only when the model's section says so."""
        return isinstance(self.model, PretrainedModel) and self.model.trust_remote_code

    @property
    def longest_row(self) -> int:
        """Most tokens of a prompt and its completion."""
        return self.data.max_prompt_tokens + self.rollout.max_new_tokens

    @property
    def window(self) -> int:
        """Most tokens that the engine must hold in one sequence, the sync's probe included."""
        return max(self.longest_row, self.sync.probe_tokens + 1)

    @property
    def probe_tolerance(self) -> float:
        """Largest legal difference of probe log-probabilities after a sync, nats."""
        if self.sync.probe_tolerance is not None:
            return self.sync.probe_tolerance
        exact = self.rollout.engine.dtype == self.learner.dtype == "float32"
        return FLOAT32_TOLERANCE if exact else HALF_PRECISION_TOLERANCE
