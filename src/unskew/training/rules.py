"""What follows from the log where a recipe says nothing: docs/defaults.md has the measurements."""

from __future__ import annotations

from dataclasses import replace

from unskew.data.log import RatingLog
from unskew.data.split import Facts, scarcity
from unskew.training.plan import Plan, Role

L2_PER_SCARCITY = 0.25


def usual_l2(log: RatingLog) -> float:
    """The L2 of nets that learn this log's ratings: a quarter of its `scarcity`.

    A row learned from n ratings carries noise of the order of 1/sqrt(n), and interactions below the noise of user and
    item together have to be pruned (the threshold of matrix completion: Negahban & Wainwright, JMLR 2012). The quarter
    was measured.
    """
    return L2_PER_SCARCITY * scarcity(log)


def by_rules(plan: Plan, facts: Facts) -> Plan:
    """The plan with numbers for what its roles leave to the log: L2, and the density as the clip."""

    def settled(role: Role) -> Role:
        l2 = role.l2_factor * L2_PER_SCARCITY * facts.scarcity if role.l2 is None else role.l2
        return replace(role, l2=l2, clip=facts.density if role.clip is None else role.clip)

    return replace(plan, roles={name: settled(role) for name, role in plan.roles.items()})
