"""What happens when a process of the run is lost or does not answer."""

from rlvr_platform.config.base import Section, setting


class SupervisionConfig(Section):
    restarts: int = setting(
        5, "Times that one actor is replaced within window_s; then the run stops.", ge=0
    )
    window_s: float = setting(3600.0, "A restart this long ago no longer counts. Seconds.", gt=0)
    backoff_s: float = setting(
        1.0,
        "Wait before the second restart within the window; doubled for every further one, up to "
        "a minute. The first comes at once. Seconds.",
        ge=0,
    )
    patience_s: float = setting(
        300.0,
        "After so long without any progress, who waits for whom is written to events.jsonl, with "
        "the stacks of the processes waited for. Seconds.",
        gt=0,
    )
    call_timeout_s: float = setting(
        120.0,
        "Deadline of a request to buffer or allocator that waits for nobody else; past it the "
        "actor is replaced. Seconds.",
        gt=0,
    )
    redo_steps: int = setting(
        100,
        "A lost learner is rebuilt from the last checkpoint and the batches since, up to so many; "
        "their rollouts stay in the object store, which spills to disk. Steps.",
        ge=1,
    )
