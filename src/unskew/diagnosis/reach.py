"""Can the ratings stand for the pairs that nobody chose?"""

from __future__ import annotations

import numpy as np

from unskew.data.log import RatingLog
from unskew.evaluation.judge import Evidence
from unskew.findings import Finding, Interval

LEAST, MOST = 0.8, 1.25  # of the unseen pairs, by the weights of the ratings


def data(log: RatingLog) -> Finding:
    """Return what there is: ratings, users, items, and who has none."""
    users, items = (np.bincount(c, minlength=n) for c, n in ((log.users, log.n_users), (log.items, log.n_items)))
    silent, unrated = int((users == 0).sum()), int((items == 0).sum())
    numbers = {
        "ratings": Interval(len(log), form=",.0f"),
        "people": Interval(log.n_users, form=",.0f"),
        "items": Interval(log.n_items, form=",.0f"),
        "share of all pairs": Interval(len(log) / log.n_pairs, form=".2%"),
        "ratings of the middle person": Interval(float(np.median(users)), form=",.0f"),
        "items without a rating": Interval(unrated, form=",.0f"),
    }
    enough = len(log) >= 1000 and float(np.median(users)) >= 5
    headline = f"{len(log):,} ratings by {log.n_users:,} people on {log.n_items:,} items"
    parts = [f"{silent:,} people and {unrated:,} items have no rating at all" if silent or unrated else ""]
    parts.append(f"{log.duplicates_merged:,} repeated ratings were merged" if log.duplicates_merged else "")
    meaning = "; ".join(part for part in parts if part) or "Everybody and everything has been rated"
    action = f"Ask about the {unrated:,} items without a rating first, or leave them out." if unrated else ""
    return Finding("data", "yes" if enough else "cannot tell", headline, f"{meaning}.", numbers, action=action)


def reach(evidence: Evidence) -> Finding:
    """Return the effective sample, what the ratings stand for, and the largest share of one rating."""
    corner, held = evidence.corners["alike"], evidence.held
    weight = corner.weight[held]
    covered, largest = float(weight.sum() / corner.base.sum()), float(weight.max() / weight.sum())
    effective = evidence.effective
    numbers = {
        "ratings": Interval(evidence.n_held, form=",.0f"),
        "worth equal ratings": Interval(effective, form=",.0f"),
        "stand for, of the unseen pairs": Interval(covered, form=".0%"),
        "share of the largest weight": Interval(largest, form=".1%"),
    }
    meaning = f"Weighted by how rarely their like is seen, they are worth {effective:,.0f} equal ratings"
    meaning += f" and stand for {covered:.0%} of the pairs that nobody rated (100% is ideal)."
    inside = LEAST <= covered <= MOST
    headline = "Yes" if inside else "In part: some pairs are seen so rarely that nothing stands for them"
    return Finding("reach", "yes" if inside else "cannot tell", headline, meaning, numbers)
