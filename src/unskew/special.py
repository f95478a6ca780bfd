"""Special functions of SciPy, which is imported when one is first called: that takes longer than most commands."""

from collections.abc import Callable
from typing import Any


def _later(name: str) -> Callable[..., Any]:
    def function(*given: Any, **more: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*given, **more)

    return function


expit, log_expit, logit, logsumexp = map(_later, ("expit", "log_expit", "logit", "logsumexp"))
ndtr, log_ndtr, ndtri, ndtri_exp = map(_later, ("ndtr", "log_ndtr", "ndtri", "ndtri_exp"))
gammaln, owens_t, softmax = map(_later, ("gammaln", "owens_t", "softmax"))
