"""Features pay where they tell something, and validation leaves them alone where they do not."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.data.features import Features
from unskew.methods.features import decided, nets_in, set_features
from unskew.training.choice import Comparison, compare_features, some_users

BRIEF = unskew.Training(max_epochs=60, patience=4, progress=False)
SMALL = unskew.MF(n_factors=8)


def described(world, told, draw=0):
    """The world's log with features: `told` of the truth about users and items, and noise."""

    def features(side, rng):
        truth = np.column_stack([getattr(world, f"{side}_factors"), getattr(world, f"{side}_effects")])
        truth = (truth - truth.mean(0)) / truth.std(0)
        noise = rng.standard_normal(truth.shape)
        values = (told * truth + (1 - told) * noise).astype(np.float32)
        values[:5, 0] = np.nan
        return Features(tuple(f"x{number}" for number in range(values.shape[1])), values)

    users, items = (features(side, np.random.default_rng([draw, n])) for n, side in enumerate(("user", "item")))
    return replace(world.log, user_features=users, item_features=items)


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=150, n_items=90, density=0.2, n_factors=4, seed=3)


@pytest.fixture(scope="module")
def informed(world):
    return described(world, told=0.7)


def test_features_that_tell_something_are_read_and_lower_the_true_risk(world, informed):
    with_them, without = (
        unskew.Naive(net=replace(SMALL, features=features)).fit(informed, training=BRIEF)
        for features in ("auto", "never")
    )
    assert with_them.method.net.features == "always"
    assert world.risk(with_them.predict_codes) < world.risk(without.predict_codes) - 0.01
    (first, *missing) = with_them.history.notes[-3:]
    assert first.startswith("Validation favours features for ratings: risk 0.")
    assert missing == [
        f"Of the {side} features 5 values are missing and contribute nothing." for side in ("user", "item")
    ]


def test_features_that_are_noise_are_mostly_left_alone_and_then_nothing_changes_to_the_bit(world):
    favoured = []
    for draw in range(4):
        log = described(world, told=0.0, draw=draw)
        method, (note, *_) = decided(unskew.Naive(net=SMALL), log, seed=0, training=BRIEF)
        favoured.append(method.net.features == "always")
        assert note.startswith("Validation favours" if favoured[-1] else "Validation does not favour features")
    assert sum(favoured) <= 1
    log = described(world, told=0.0, draw=favoured.index(False))
    left_open, never = (
        unskew.Naive(net=replace(SMALL, features=features)).fit(log, training=BRIEF) for features in ("auto", "never")
    )
    assert left_open.method == never.method
    pairs = np.divmod(np.arange(log.n_pairs), log.n_items)
    assert np.array_equal(left_open.predict_codes(*pairs), never.predict_codes(*pairs))


def test_a_propensity_decides_by_itself_by_how_well_it_tells_seen_pairs(world, informed):
    """Here people see what is made for those like them, and hardly anything else."""
    groups = [np.arange(n) % 3 for n in (world.n_users, world.n_items)]
    alike = groups[0][informed.users] == groups[1][informed.items]
    features = [Features(("a", "b", "c"), group[:, None] == np.arange(3)) for group in groups]
    rows = np.flatnonzero(alike | (np.arange(len(informed)) % 10 == 0))
    log = replace(informed.take(rows), user_features=features[0], item_features=features[1])
    fitted = unskew.Factors(n_folds=2).fit(log, training=BRIEF)
    assert fitted.notes[0].startswith("Validation favours features for the propensity")
    assert all(hasattr(net.items, "shared") for net in fitted.nets)
    users, items = np.divmod(np.arange(log.n_pairs), log.n_items)
    p, own = fitted.pair(users, items), groups[0][users] == groups[1][items]
    assert p[own].mean() > 3 * p[~own].mean()


@pytest.mark.parametrize("name", ["naive", "dce-dr", "stable-dr", "multi-dr"])
def test_a_decision_reaches_every_net_of_a_method_but_those_that_decide_by_themselves(name):
    method = unskew.make(name)
    for read, word in ((True, "always"), (False, "never")):
        changed = set_features(method, read)
        assert {net.features for net in nets_in(changed)} == {word}
        assert type(changed) is type(method)
    drjl = set_features(unskew.DRJL(net=unskew.MF(features="never")), read=True)
    assert (drjl.net.features, drjl.propensity.net.features) == ("never", "auto")


def test_nothing_is_compared_where_nothing_is_open(world, informed):
    for method, log in (
        (unskew.Naive(), world.log),
        (unskew.Naive(net=unskew.MF(features="always")), informed),
        (unskew.Naive(net=unskew.MF(biases=False)), informed),
        (unskew.Naive(net=unskew.NCF()), informed),
    ):
        assert decided(method, log, seed=0, training=BRIEF) == (method, [])


def test_a_large_log_is_compared_on_some_of_its_users(informed):
    part = some_users(informed, 500, seed=1)
    counts = np.bincount(informed.users, minlength=informed.n_users)
    assert 400 < len(part) <= 500
    assert part.n_items == informed.n_items
    codes = informed.user_ids.codes(part.user_ids.arrow)
    assert counts[codes].sum() == len(part)
    np.testing.assert_array_equal(part.user_features.values, informed.user_features.values[codes])
    assert part.user_features.encoding is informed.user_features.encoding
    assert some_users(informed, len(informed), seed=1) is informed


def test_a_net_that_diverges_with_features_is_not_favoured(informed, monkeypatch):
    from unskew.errors import DivergedError
    from unskew.training import choice

    def train(plan, *arguments, **options):
        if plan.roles["prediction"].net.features == "always":
            raise DivergedError("Training left the finite numbers.")
        return usual(plan, *arguments, **options)

    usual = choice.train
    monkeypatch.setattr(choice, "train", train)
    method, (note,) = decided(unskew.Naive(net=SMALL), informed, seed=0, training=replace(BRIEF, max_epochs=2))
    assert method.net.features == "never"
    assert "risk inf with them" in note


def test_workers_who_see_different_users_decide_alike(informed):
    """By the average over all of them, which a worker hears from its group."""

    class Heard(type(BRIEF.group)):
        def total(self, values):
            n, *sums = values
            return np.array([2 * n, sums[0] + n * 1.0, sums[1] + n * 0.1])  # the other one thinks little of features

    def plan(net):
        return unskew.Naive(net=net).plan()

    found = compare_features("ratings", SMALL, plan, informed, Heard(), seed=0, training=replace(BRIEF, max_epochs=3))
    assert isinstance(found, Comparison)
    assert not found.favours_features


@pytest.mark.parametrize("name", ["dce-dr", "multi-dr"])
def test_a_model_with_features_comes_back_from_its_folder_to_the_bit(informed, tmp_path, name):
    model = unskew.make(name).fit(informed, training=replace(BRIEF, max_epochs=2))
    model.save(tmp_path / "model")
    other = unskew.load(tmp_path / "model")
    pairs = np.divmod(np.arange(informed.n_pairs), informed.n_items)
    for role in ("prediction", "propensity"):
        assert np.array_equal(model.said_codes(role, *pairs), other.said_codes(role, *pairs))
    for side, own in zip(other.log.features, informed.features, strict=True):
        assert side.encoding == own.encoding


def test_a_model_from_before_nets_read_features_is_loaded_as_it_was(informed, tmp_path):
    """Its recipe does not speak of features: then its arrays do."""
    model = unskew.Naive(net=replace(SMALL, features="never")).fit(informed, training=replace(BRIEF, max_epochs=2))
    replace(model, method=unskew.Naive(net=SMALL)).save(tmp_path / "model")
    other = unskew.load(tmp_path / "model")
    assert other.predict_codes(np.array([0]), np.array([0])) == model.predict_codes(np.array([0]), np.array([0]))


def test_a_run_with_features_goes_on_from_its_checkpoint(informed, tmp_path, monkeypatch):
    from unskew.training.checkpoint import Checkpoint

    def once(self, content, arrays, write=Checkpoint.save):
        write(self, content, arrays)
        if self.number == 4 and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            raise KeyboardInterrupt

    method = unskew.DRJL(net=replace(SMALL, features="always"), propensity=unskew.Factors(n_folds=2))
    training = replace(BRIEF, max_epochs=2)
    straight = method.fit(informed, training=training)
    training = replace(training, checkpoint=str(tmp_path / "states"), checkpoint_every=3)
    monkeypatch.setattr(Checkpoint, "save", once)
    with pytest.raises(KeyboardInterrupt):
        method.fit(informed, training=training)
    resumed = method.fit(informed, training=training)
    pairs = np.divmod(np.arange(informed.n_pairs), informed.n_items)
    assert np.array_equal(straight.predict_codes(*pairs), resumed.predict_codes(*pairs))


def test_new_users_are_folded_in_by_their_features_and_their_ratings(world, informed):
    """Half of the users are new: they are told by features alone better than as the average user."""
    old, new = np.arange(0, 100), np.arange(100, 150)
    parts = [
        informed.of_users(codes, np.isin(informed.users, codes), lambda users, first=codes[0]: users - first)
        for codes in (old, new)
    ]
    model = unskew.Naive(net=replace(SMALL, features="always")).fit(parts[0], training=BRIEF)
    rows = np.flatnonzero(parts[1].users < 25)
    joined = model.fold_in(parts[1].take(rows))  # the other half has no ratings
    pairs = np.divmod(np.arange(25 * world.n_items), world.n_items)

    def risk(first, codes):
        truth = world.preference(pairs[0] + first, pairs[1])
        return float(np.mean((truth - model_or_joined.predict_codes(codes, pairs[1])) ** 2))

    model_or_joined = model
    stranger = [risk(first, np.full(len(pairs[0]), -1)) for first in (100, 125)]
    model_or_joined = joined
    by_both, by_features = risk(100, pairs[0] + 100), risk(125, pairs[0] + 125)
    assert by_features < stranger[1] - 0.005
    assert by_both < stranger[0] - 0.01
    assert np.array_equal(joined.predict_codes(*pairs), model.predict_codes(*pairs))
