"""Any propensity and any net plugs into any method that has the role."""

from dataclasses import fields, replace

import pytest

import unskew
from unskew.testing.check import lightened
from unskew.testing.parts import exchanged

SHORT = unskew.Training(max_epochs=1, progress=False)
NETS = [
    unskew.MF(n_factors=3),
    unskew.MF(n_factors=3, biases=False),
    unskew.NCF(n_factors=3),
    unskew.NCF(n_factors=3, hidden=False),
]


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=50, n_items=30, density=0.2, seed=2)


def takes(method, part, kind):
    return any(field.name == part for field in fields(method)) and isinstance(getattr(method, part), kind)


WITH_PROPENSITY = [e.name for e in unskew.methods() if takes(e.defaults, "propensity", unskew.Propensity)]
WITH_NET = [e.name for e in unskew.methods() if takes(e.defaults, "net", unskew.MF)]


@pytest.mark.parametrize("name", WITH_PROPENSITY)
def test_every_propensity_serves_every_method_that_weights(name, world):
    known = unskew.Known(world.propensity, given_rating=world.propensity)
    factors = unskew.Factors(n_folds=2, l2=0.0)
    kinds = [unskew.Uniform(), unskew.Popularity(), unskew.NaiveBayes(), unskew.Additive(), factors, known]
    for propensity in kinds:
        method = replace(unskew.make(name), propensity=propensity)
        model = method.fit(world.log, training=SHORT, random_ratings=world.test)
        p = model.propensity([0, 1], [2, 3])
        assert ((p > 0) & (p <= 1)).all()


@pytest.mark.parametrize("name", WITH_NET)
def test_every_net_serves_every_method(name, world):
    for net in NETS:
        method = exchanged(replace(unskew.make(name), net=net), lightened)
        if takes(method, "propensity", unskew.Propensity):
            method = replace(method, propensity=unskew.Additive())
        prediction = method.fit(world.log, training=SHORT).predict([0, 1], [2, 3])
        assert ((prediction > 0) & (prediction < 1)).all()


def test_the_lists_above_are_not_empty():
    assert {"ips", "dr-jl", "tdr-cl", "mr", "at", "brd-dr"} <= set(WITH_PROPENSITY)
    assert {"naive", "cvib", "eib", "stable-dr"} <= set(WITH_NET)
