"""The sampler draws from the posterior it claims: every conditional, one sweep to the digit, and the bits."""

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from unskew.posterior import defaults, gibbs
from unskew.posterior.exposure import Columns
from unskew.posterior.gibbs import FAR, RowPrior, Sampler, draw_log_size, sweep_rng
from unskew.posterior.kernels import fold_row, normal_cdf, normal_quantile, truncate_normals
from unskew.posterior.new_rows import BURN, SWEEPS

LONG = bool(os.environ.get("UNSKEW_LONG"))
FEW = {"n_users": 6, "n_items": 5, "n": 12}  # a level has one rating or none
LARGER = {"n_users": 90, "n_items": 60, "n": 5000}  # more than one piece of work
quantile = np.vectorize(normal_quantile.py_func, otypes=[float])


def world(seed, n_users=20, n_items=15, n=150, n_levels=3):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(n_users * n_items)[:n]
    columns = [
        Columns.of(m, ("x", rng.standard_normal((m, 2)), False), ("h", rng.standard_normal((m, 3)), True))
        for m in (n_users, n_items)
    ]
    return pairs // n_items, pairs % n_items, rng.integers(n_levels, size=n), columns


def test_normal_cdf_agrees_with_scipy():
    x = np.random.default_rng(1).uniform(-36, 9, 20_000)
    found = np.array([normal_cdf(each) for each in x])
    assert np.allclose(found, ndtr(x), rtol=3e-10, atol=0)
    near = np.abs(x) < 10
    assert np.allclose(found[near], ndtr(x[near]), rtol=1e-13, atol=0)
    assert 0 < normal_cdf(-FAR) < 1e-290
    assert normal_cdf(FAR) == 1


def test_normal_quantile_agrees_with_scipy():
    p = np.concatenate([np.geomspace(1e-300, 0.4, 300), np.linspace(0.001, 0.999, 999), 1 - np.geomspace(1e-12, 0.4)])
    assert np.allclose([normal_quantile(x) for x in p], ndtri(p), rtol=3e-7, atol=1e-9)
    assert np.isfinite([normal_quantile(0.0), normal_quantile(1.0)]).all()


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1, 0.5), (0.5, FAR), (-FAR, -2), (6, 6.5), (9, FAR), (15, 16), (-40, -30), (25, FAR), (-FAR, FAR)],
)
def test_truncated_normal_has_its_distribution(low, high):
    u = (np.arange(2000) + 0.5) / 2000
    truncate_normals(np.full(2000, float(low)), np.full(2000, float(high)), x := u.copy())
    assert (np.diff(x) >= -1e-6).all()
    assert x.min() >= low
    assert x.max() <= high
    bounds = (-high, -low) if low > 0 else (low, high)
    exact = np.sort(-stats.truncnorm.ppf(u, *bounds)) if low > 0 else stats.truncnorm.ppf(u, *bounds)
    assert np.abs(x - exact).max() < 1e-3 * max(1, abs(exact).max() / 10)


@pytest.mark.parametrize(("power", "up", "down"), [(6000, 3400, 30), (-200, 50, 400), (3, 2, 1)])
def test_log_sizes_have_their_distribution(power, up, down):
    """A chain of moves, each from wherever the last one ended; every fifth is nearly independent."""
    rng, at, found = np.random.default_rng(1), 0.0, []
    for k in range(10_000):
        at += draw_log_size(rng, power, up * math.exp(2 * at), down * math.exp(-2 * at))
        found += [at] if k % 5 == 0 else []
    drawn = np.array(found[20:])
    x = np.linspace(drawn.min() - 0.5, drawn.max() + 0.5, 100_001)
    height = power * x - up * np.exp(2 * x) - down * np.exp(-2 * x)
    below = np.cumsum(np.exp(height - height.max()))
    assert stats.kstest(drawn, lambda q: np.interp(q, x, below / below[-1])).pvalue > 1e-3


@pytest.mark.parametrize(("power", "up", "down"), [(6000, 3400, 30), (-200, 50, 400), (3, 2, 1)])
def test_steps_for_sizes_are_twice_the_deviation_at_the_mode(power, up, down, monkeypatch):
    asked, half = [], SimpleNamespace(random=lambda: 0.5)
    given = {"expm1": lambda x: asked.append(x) or math.expm1(x), "sqrt": math.sqrt, "log": math.log}
    monkeypatch.setattr(gibbs, "math", SimpleNamespace(**given))
    draw_log_size(half, power, up, down)
    mode = brentq(lambda x: power - 2 * up * math.exp(2 * x) + 2 * down * math.exp(-2 * x), -9, 9)
    curvature = 4 * up * math.exp(2 * mode) + 4 * down * math.exp(-2 * mode)
    assert asked[0] == pytest.approx(-2 / math.sqrt(curvature))  # twice the lower end, half a step below 0


def scores(s, u, v):
    """f of every rating, given rows of users and items."""
    return (u[s.users, : s.d] * v[s.items, : s.d]).sum(1) + u[s.users, s.d] + v[s.items, s.d]


def slow_latent(f, sd, low, high, uniforms):
    """Latent ratings between two thresholds."""
    low, high = (low - f) / sd, (high - f) / sd
    lower = quantile(ndtr(low) + uniforms * (ndtr(high) - ndtr(low)))
    upper = -quantile(ndtr(-high) + (1 - uniforms) * (ndtr(-low) - ndtr(-high)))
    return f + sd * np.where(low > 0, upper, lower)


def slow_row(q, target, w, row, shape, gamma, precision, mean, normal):
    """Scale, conditional mean and draw of a row, given what it meets."""
    scale = math.sqrt((shape + (w * (target - q @ row) ** 2).sum() / 2) / gamma)
    w = w / scale**2
    own = precision + (q * w[:, None]).T @ q
    centre = np.linalg.solve(own, precision @ mean + q.T @ (w * target))
    root = np.linalg.cholesky(own[::-1, ::-1])[::-1, ::-1].T  # own = root' root
    return scale, centre, centre - (row - centre) / 2 + math.sqrt(0.75) * np.linalg.solve(root, normal)


def slow_sweep(s):
    """One sweep in plain NumPy, from the formulas, given the same random numbers."""
    d, p, old, u, v = s.d, s.d + 1, s.thresholds.copy(), s.user_side.rows.copy(), s.item_side.rows.copy()
    scales = [s.user_side.scale.copy(), s.item_side.scale.copy()]
    f = scores(s, u, v)
    sd = scales[0][s.users] * scales[1][s.items]
    rng = sweep_rng(s.seed, s.sweeps)
    uniforms = rng.random(len(f))
    normals = [quantile(rng.random((side.n, p))) for side in (s.user_side, s.item_side)]
    gammas = [rng.standard_gamma(s.scale_shape + side.counts / 2) for side in (s.user_side, s.item_side)]
    counts = np.bincount(s.levels, minlength=s.n_levels)
    step = 1 / np.sqrt(np.maximum(np.minimum(counts[:-1], counts[1:]), 1))
    new = old + np.r_[0, rng.standard_normal(s.n_levels - 1) * step, 0]
    chance = np.log(rng.random(s.n_levels + 1))

    def like(t):
        chances = ndtr((t[s.levels + 1] - f) / sd) - ndtr((t[s.levels] - f) / sd)
        prior = -(t[1:-1] ** 2).sum() / (2 * defaults.THRESHOLD_SD**2)
        return np.log(chances).sum() + prior if (np.diff(t) > 0).all() and (chances > 0).all() else -np.inf

    for k in [*range(1, s.n_levels, 2), *range(2, s.n_levels, 2)]:
        tried = old.copy()
        tried[k] = new[k]
        old = tried if chance[k] < like(tried) - like(old) else old
    y = slow_latent(f, sd, old[s.levels], old[s.levels + 1], uniforms)
    rows, means = [u, v], [np.zeros((side.n, p)) for side in (s.user_side, s.item_side)]
    for k, (side, code, others) in enumerate(((s.user_side, s.users, s.items), (s.item_side, s.items, s.users))):
        other = rows[1 - k]
        right = np.c_[other[:, :d], np.ones(len(other))]
        for r in range(side.n):
            m = np.flatnonzero(code == r)
            met = right[others[m]], y[m] - other[others[m], d], scales[1 - k][others[m]] ** -2
            prior = side.prior.precision, side.columns.values[r] @ side.prior.coefficients
            scales[k][r], means[k][r], rows[k][r] = slow_row(
                *met, rows[k][r], s.scale_shape, gammas[k][r], *prior, normals[k][r]
            )
    f = scores(s, u, v)
    up = (((y - f) / (scales[0][s.users] * scales[1][s.items])) ** 2).sum()
    up += ((old[1:-1] / defaults.THRESHOLD_SD) ** 2).sum()
    down = (np.trace(s.user_side.prior.precision) + s.item_side.prior.precision[d, d]) / s.w
    c = math.exp(draw_log_size(rng, len(y) + s.n_levels - 1 - (p + 1) * s.row_df, up / 2, down / 2))
    for grown in (old[1:-1], u, v[:, d], means[0], means[1][:, d]):
        grown *= c
    return old, y, *scales, u, v, *means


@pytest.mark.parametrize(("n_levels", "size"), [(2, {}), (3, {}), (6, {}), (6, FEW), (3, LARGER)])
def test_one_sweep_agrees_with_slow_numpy(n_levels, size):
    users, items, ratings, columns = world(n_levels, n_levels=n_levels, **size)
    s = Sampler(users, items, ratings, n_levels, *columns, d=3, seed=2**40 + 5)
    assert (s.row_df, s.w, s.scale_shape, s.of_columns) == (4, 1, 5, (0.1, 0.001))  # Wishart(p, I), p = d + 1
    moved = False
    for _ in range({12: 100, 5000: 2}.get(len(ratings), 6)):
        slow, before = slow_sweep(s), s.thresholds
        s.sweep()
        moved = moved or bool((before != s.thresholds).any())
        a, b = s.user_side, s.item_side
        found = s.thresholds, s.y, a.scale, b.scale, a.rows, b.rows, a.mean, b.mean
        for ours, theirs in zip(found, slow, strict=True):
            assert np.abs(ours - theirs).max() < (1e-5 if ours is a.mean or ours is b.mean else 1e-10)  # in 32 bits
    assert moved


def test_folded_rows_agree_with_slow_numpy():
    """A new row given item rows of some sweeps: the mean of its own sweeps, the first ones left out."""
    rng, n_shots, n_items, d = np.random.default_rng(0), 3, 9, 2
    items, levels = np.array([4, 1, 8, 0, 5]), np.array([0, 1, 2, 1, 0])
    rows, weights = rng.standard_normal((n_shots, n_items, d + 1)), rng.uniform(0.5, 2, (n_shots, n_items))
    thresholds = np.sort(rng.standard_normal((n_shots, 2)), axis=1)
    thresholds = np.c_[np.full(n_shots, -FAR), thresholds, np.full(n_shots, FAR)]
    square = rng.standard_normal((n_shots, d + 1, d + 1))
    precision = square @ square.swapaxes(1, 2) + np.eye(d + 1)
    coefficients, known = rng.standard_normal((n_shots, 2, d + 1)), np.array([[1.0, 0.4]])
    uniforms = rng.random((n_shots, SWEEPS, 5))
    gammas, normals = rng.standard_gamma(7, (n_shots, SWEEPS, 1)), rng.random((n_shots, SWEEPS, 1, d + 1))
    given = (
        thresholds,
        precision,
        coefficients,
        known,
        defaults.SCALE_SHAPE,
        BURN,
        uniforms.copy(),
        gammas,
        normals,
        (0,) * (d + 1),
    )
    found = fold_row(items, levels, rows, weights, *given)
    for k in range(n_shots):
        z, sd, mean, scale, kept = rows[k][items], 1 / weights[k][items], known[0] @ coefficients[k], 1.0, []
        row, q = mean, np.c_[z[:, :d], np.ones(5)]
        for sweep in range(SWEEPS):
            ends = thresholds[k][levels], thresholds[k][levels + 1]
            y = slow_latent(q @ row + z[:, d], scale * sd, *ends, uniforms[k, sweep])
            rest = defaults.SCALE_SHAPE, gammas[k, sweep, 0], precision[k], mean
            scale, centre, row = slow_row(q, y - z[:, d], sd**-2, row, *rest, quantile(normals[k, sweep, 0]))
            kept.append([*centre, math.log(scale)])
        np.testing.assert_allclose([*found[0][k], found[1][k]], np.mean(kept[BURN:], axis=0), rtol=1e-5, atol=1e-6)


def simulate(s, rng):
    """Draw ratings from the sampler's own state."""
    u, v = s.user_side, s.item_side
    f = scores(s, u.rows, v.rows)
    y = f + u.scale[s.users] * v.scale[s.items] * rng.standard_normal(len(f))
    s.levels[:] = np.searchsorted(s.thresholds[1:-1], y)


def draw_prior(s, rng):
    """Put the sampler's state to a draw from the prior."""
    p = s.d + 1
    for side in (s.user_side, s.item_side):
        groups = side.columns.groups
        side.prior.column_precision = rng.gamma(s.of_columns[0], 1 / s.of_columns[1], groups.max() + 1)[groups]
        bartlett = np.tril(rng.standard_normal((p, p)), -1) + np.diag(np.sqrt(rng.chisquare(s.row_df - np.arange(p))))
        side.prior.precision = s.w * bartlett @ bartlett.T
        root = np.linalg.cholesky(np.linalg.inv(side.prior.precision))
        noise = rng.standard_normal((len(groups), p)) @ root.T
        side.prior.coefficients = noise / np.sqrt(side.prior.column_precision)[:, None]
        side.rows[:] = side.columns.values @ side.prior.coefficients + rng.standard_normal((side.n, p)) @ root.T
        side.scale[:] = 1 / np.sqrt(rng.gamma(s.scale_shape, 1 / s.scale_shape, side.n))
    while True:
        inner = defaults.THRESHOLD_SD * rng.standard_normal(len(s.thresholds[s.own]))
        if s.own.step or (np.diff(inner) > 0).all():
            s.thresholds[s.own] = inner
            return


def statistics(s):
    """37 numbers that touch every conditional; logs and signs, for tails are heavy."""
    found, d = [], s.d
    for side in (s.user_side, s.item_side):
        x, prior, scale = side.rows, side.prior, np.log(side.scale)
        log_abs, precision = np.log(np.abs(x) + 1e-300), prior.precision
        found += [scale.mean(), scale.std(), scale[0], side.scale[1] ** -2]
        found += [np.linalg.slogdet(precision)[1], np.log(precision[0, 0]), np.log(precision[d, d])]
        found += [precision[0, d] / math.sqrt(precision[0, 0] * precision[d, d])]
        found += [np.log(prior.column_precision[k]) for k in (0, 1, 3)]
        found += [np.arctan(prior.coefficients[1, d]), np.log(np.abs(prior.coefficients[3]) + 1e-300).mean()]
        found += [log_abs[:, 0].mean(), log_abs[:, d].mean(), np.arctan(x[0, d])]
    f = (s.user_side.rows[s.users, :d] * s.item_side.rows[s.items, :d]).sum(1)
    t = s.thresholds[1:-1]
    found += [np.arctan(f[0]), np.log(np.abs(f)).mean()]
    return [*found, t[0], np.log(t[-1] - t[0]), float(s.levels.mean())]


def test_geweke_joint_distribution(monkeypatch):
    """Prior draws and draws by turns of (sweep, new data) have one distribution: Geweke (JASA 99, 2004), |z| < 4."""
    steps = 60_000 if LONG else 4000
    monkeypatch.setattr(defaults, "THRESHOLD_SD", 1.0)  # tails that a chain of this length visits often enough
    users, items, ratings, columns = world(1, n=100)
    columns = [side._replace(values=side.values * np.array([0.5] + 5 * [0.3])) for side in columns]
    prior = {"of_columns": (5.0, 4.0), "prior_scale": 0.3, "row_df": 13}
    s = Sampler(users, items, ratings, 3, *columns, d=2, seed=3, **prior)
    rng, found = np.random.default_rng(4), {"prior": [], "sweep": []}
    for kind, n in (("prior", steps // 2), ("sweep", steps)):
        for k in range(n):
            if kind == "prior" or k == 0:
                draw_prior(s, rng)
                simulate(s, rng)
            if kind == "sweep":
                s.sweep()
                simulate(s, rng)
            found[kind].append(statistics(s))
    a, b = (np.array(values) for values in found.values())
    assert a.shape[1] >= 35
    batches = b.reshape(50, -1, b.shape[1]).mean(axis=1)
    error = np.sqrt(a.var(axis=0) / len(a) + batches.var(axis=0, ddof=1) / 50)
    z = (a.mean(axis=0) - b.mean(axis=0)) / np.maximum(error, 1e-12)
    assert np.abs(z).max() < 4, np.round(z, 1)


def test_simulation_based_calibration():
    """Ranks of the truth among posterior draws are uniform when it is drawn from the prior (Talts et al., 2018)."""
    rng, users, items, ranks = np.random.default_rng(3), np.repeat(np.arange(6), 4), (np.arange(24) * 5) % 7, []
    worlds, thin = (120, 20) if LONG else (25, 6)
    prior = {"d": 1, "row_df": 12, "prior_scale": 0.3, "of_columns": (4, 3)}
    for seed in range(worlds):
        s = Sampler(users, items, np.arange(24) % 3, 3, Columns.of(6), Columns.of(7), seed=seed, **prior)
        draw_prior(s, rng)  # a start from the truth is a draw from the posterior
        simulate(s, rng)
        draws = []
        for k in range(50 * thin + 1):
            if k % thin == 0:
                u, t = s.user_side.rows, s.thresholds[1:-1]
                draws.append((scores(s, u, s.item_side.rows)[0] - t[0], u[0, 1] - u[1, 1], t[1] - t[0]))
            s.sweep()
        ranks.append((np.array(draws[1:]) < draws[0]).mean(0))
    for column in np.array(ranks).T:
        counts = np.histogram(column, 5, (0, 1.0001))[0]
        assert ((counts - worlds / 5) ** 2 / (worlds / 5)).sum() < 18.5  # chi-square with 4 degrees, 0.1%


@pytest.mark.parametrize("context", [None, [0, 2, 0]])
def test_sampler_agrees_with_brute_force_on_two_by_two(context):
    """P of the posterior on a 2 x 2 log, d = 1, against weighted draws from the prior."""
    users, items, levels = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 0, 1])
    prior = {"d": 1, "row_df": 8, "prior_scale": 0.5, "of_columns": (3, 2)}
    context = None if context is None else np.array(context)
    s = Sampler(users, items, levels, 2, Columns.of(2), Columns.of(2), seed=0, context=context, **prior)
    rng, found = np.random.default_rng(1), {"sweep": [], "prior": []}
    for kind, n in (("sweep", 60_000 if LONG else 5000), ("prior", 120_000 if LONG else 8000)):
        for _ in range(n):
            s.sweep() if kind == "sweep" else draw_prior(s, rng)
            u, v = s.user_side, s.item_side
            f = u.rows[:, :1] @ v.rows[:, :1].T + u.rows[:, 1:] + v.rows[:, 1]
            t = np.full((2, 2), s.thresholds[1])
            t[users, items] = s.thresholds[s.own][0 if context is None else context]
            found[kind].append(ndtr((f - t) / (u.scale[:, None] * v.scale[None, :])))
    swept, p = (np.array(values) for values in found.values())
    w = np.prod(np.abs(1 - levels - p[:, users, items]), axis=1)[:, None, None] / len(p)
    exact = (w * p).sum(0) / w.sum()
    batches = swept.reshape(50, -1, 2, 2).mean(1)
    error = np.sqrt(batches.var(0, ddof=1) / 50 + ((w * (p - exact)) ** 2).sum(0) / w.sum() ** 2)
    assert (np.abs(swept.mean(0) - exact) < 4 * error + 0.003).all()


def test_chains_start_small_and_where_levels_part_though_some_are_empty():
    levels = np.repeat([1, 2], [30, 10])
    s = Sampler(np.arange(40) % 80, np.arange(40) % 50, levels, 5, Columns.of(80), Columns.of(50))
    for side in (s.user_side, s.item_side):
        assert side.rows[:, :-1].std() == pytest.approx(0.1, rel=0.1)
        assert not side.rows[:, -1].any()
        assert not side.prior.coefficients.any()
        assert side.scale.tolist() == [1] * side.n
        np.testing.assert_array_equal(side.prior.precision, 10 * np.eye(17))
        np.testing.assert_array_equal(side.prior.column_precision, [1])
    expected = 1.7 * (ndtri([1e-4, 0.75, 1 - 1e-4, 1 - 1e-4]) + 1e-6 * np.arange(4))
    np.testing.assert_allclose(s.thresholds, [-FAR, *expected, FAR], rtol=1e-12)


def test_a_longer_log_goes_on_with_its_rows_and_new_ones_begin_at_their_prior_means():
    users, items, ratings, columns = world(0)
    first = Sampler(users, items, ratings, 3, *columns, d=2)
    first.sweep()
    *log, columns = world(1, n_users=24, n_items=17)
    longer, rng = Sampler(*log, 3, *columns, d=2), np.random.default_rng([0, 31, 1])
    longer.restore(first.state(), longer=True)
    assert (longer.sweeps, longer.thresholds.tolist()) == (1, first.thresholds.tolist())
    for side, old in ((longer.user_side, first.user_side), (longer.item_side, first.item_side)):
        n, given = old.n - 1, side.columns.values  # all but the average one
        known, x, prior = given[:n], old.rows[:n], RowPrior(10 * np.eye(3), np.zeros((6, 3)), np.ones(6))
        prior.draw(rng, n, known.T @ x, x.T @ x, known.T @ known, side.columns.groups, 1.0, defaults.COLUMN_PRIOR, 3)
        np.testing.assert_allclose(side.prior.coefficients, prior.coefficients)
        np.testing.assert_allclose(side.prior.precision, prior.precision)
        np.testing.assert_allclose(side.rows, np.r_[x, given[n:] @ prior.coefficients])
        np.testing.assert_array_equal(side.scale, np.r_[old.scale[:n], np.ones(side.n - n)])


def test_thresholds_of_contexts_go_on_and_those_of_others_begin_at_their_mean():
    users, items, ratings, columns = world(0, n_levels=2)
    first, again, other = (
        Sampler(users, items, ratings, 2, *columns, d=2, context=np.arange(150) % n) for n in (3, 3, 2)
    )
    first.sweep()
    for each in (again, other):
        each.restore(first.state())
    assert again.thresholds.tolist() == first.thresholds.tolist()
    assert other.thresholds[other.own] == pytest.approx([first.thresholds[first.own].mean()] * 2)


def test_bits_depend_on_seed_and_sweep_and_not_on_threads():
    rng, found = np.random.default_rng(0), []
    pairs = rng.permutation(700 * 300)[:30_000]
    columns = Columns.of(700, ("x", rng.standard_normal((700, 3)), False)), Columns.of(300)
    for seed, threads in ((1, 1), (1, 2), (1, 3), (2, 1)):
        s = Sampler(pairs // 300, pairs % 300, pairs % 5, 5, *columns, seed=seed, threads=threads)
        for _ in range(3):
            before = s.user_side.rows.tobytes()
            s.sweep()
            assert s.user_side.rows.tobytes() != before
        found.append((s.user_side.rows.tobytes(), s.item_side.rows.tobytes(), s.y.tobytes(), s.thresholds.tobytes()))
    assert found[0] == found[1] == found[2] != found[3]
