"""The source of the roles of parameters, for exported files."""

from __future__ import annotations

import inspect
import json

from optsmith.optim import _roles
from optsmith.optim._roles import ROLES, role_groups, roles, with_roles


def roles_source() -> str:
    """Return the functions that find the roles of a model's parameters; they require only torch."""
    parts = (roles, _roles._layer, _roles._role, with_roles, role_groups)
    source = "\n\n".join(inspect.getsource(part) for part in parts)
    constants = (
        f"HIDDEN, EMBEDDING, OUTPUT, VECTOR = ROLES = {json.dumps(ROLES)}\n"
        "Group = dict[str, Any]\n"
        "Parameters = nn.Module | Iterable[Any]"
    )
    return f"{constants}\n\n\n{source}".replace("TaskError", "ValueError")
