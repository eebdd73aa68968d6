"""The call of `search` that continues an existing study."""

from __future__ import annotations

from typing import Any

from optsmith._errors import StudyError
from optsmith.study._study import Study


def stored_call(study: Study, task: str | None = None) -> dict[str, Any]:
    """Return the arguments of `search` that continue a study, from its stored settings.

    Args:
        study: The study.
        task: The task as a command names it; by default as the study stores it.

    Raises:
        StudyError: The task was made in Python, and is not given.
    """
    settings = study.stored_settings
    source = task or study.about["source"]
    if not source:
        raise StudyError(
            f"the task of the study {study.name} was made in Python: give --task file.py:name, or"
            f' call optsmith.search(task, study="{study.name}", finish=True)'
        )
    return {
        "task": source,
        "study": study.name,
        "preset": settings.preset,
        "protocol": settings.search.protocol,
        "algorithm": settings.algorithm,
        "space": settings.search.space,
        "seed": settings.seed,
        "device": settings.device,
        "stack": settings.stack,
        "time_limit": settings.time_limit,
        "proxy": settings.proxy or None,
    }
