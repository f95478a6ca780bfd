"""One thread of BLAS, as every fit has: several would wait for each other over the small matrices of a sweep."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def _one_blas_thread():
    with threadpool_limits(1, "blas"):
        yield
