"""How many pairs ask for users or items that the model does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unskew.model import Recommender


def unknown_pairs(model: Recommender, users: Any, items: Any) -> tuple[NDArray[np.bool_], str]:
    """Which pairs have an unknown user or item, and a line that says how many; empty if there are none."""
    of_user, of_item = model.log.user_ids.codes(users) < 0, model.log.item_ids.codes(items) < 0
    unknown = of_user | of_item
    if not unknown.any():
        return unknown, ""
    line = (
        f"{unknown.sum():,} of {len(unknown):,} pairs were answered for the average user or item "
        f"({of_user.sum():,} have an unknown user, {of_item.sum():,} an unknown item)"
    )
    return unknown, line
