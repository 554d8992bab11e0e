"""Ray and placement."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class ClusterConfig(Section):
    device: Literal["cpu", "gpu"] = setting("cpu", "What engines and learners run on.")
    colocate: bool = setting(
        False, "Learner rank i shares rollout worker i's GPU; needs sync.transport ipc."
    )
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK"] = setting(
        "PACK", "How the placement group spreads over nodes."
    )
    connect_timeout_s: float = setting(60.0, "Deadline to reach a running Ray. Seconds.", gt=0)
    placement_timeout_s: float = setting(
        120.0,
        "Deadline for the placement group, after demand was checked against supply. Seconds.",
        gt=0,
    )
    object_store_gib: float = setting(
        1.0, "Object store of a Ray started here; a running one keeps its own. GiB.", gt=0
    )
    temp_dir: str | None = setting(
        None,
        "Where a Ray started here keeps sockets, logs and spilled objects, in a folder that only "
        "you can enter; unset: the system's temporary folder. Paths of sockets have to be short.",
    )
