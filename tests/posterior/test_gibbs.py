"""The sampler draws from the posterior it claims: every conditional, one sweep to the digit, and the bits."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from unskew.posterior import defaults
from unskew.posterior.draws import (
    HOST,
    ITEM_SCALES,
    ITEMS,
    LATENT,
    USER_SCALES,
    USERS,
    draw_log_size,
    gamma_draw,
    host_rng,
    normal_quantile,
    philox,
    truncated_normal,
    uniform,
)  # fmt: skip
from unskew.posterior.gibbs import FAR, Sampler
from unskew.posterior.prior import Columns

LONG = bool(os.environ.get("UNSKEW_LONG"))


def world(seed, n_users=20, n_items=15, n=150, n_levels=3):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(n_users * n_items)[:n]
    users, items = pairs // n_items, pairs % n_items
    columns = [
        Columns.of(m, None, ("x", rng.standard_normal((m, 2)), False), ("h", rng.standard_normal((m, 3)), True))
        for m in (n_users, n_items)
    ]
    ratings = rng.integers(n_levels, size=n) if n_levels > 1 else rng.standard_normal(n)
    return users, items, ratings, columns


def test_philox_gives_the_published_numbers():
    """The known answers of Random123 for Philox 4x32-10."""
    assert [hex(int(x)) for x in philox.py_func(0, 0, 0, 0, 0)] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    key = (0x299F31D0 << 32) | 0xA4093822
    found = philox.py_func(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, key)
    assert [hex(int(x)) for x in found] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


def test_normal_quantile_agrees_with_scipy():
    p = np.concatenate(
        [np.geomspace(1e-300, 0.4, 300), np.linspace(0.001, 0.999, 999), 1 - np.geomspace(1e-12, 0.4, 99)]
    )
    assert np.allclose([normal_quantile(x) for x in p], ndtri(p), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1, 0.5), (0.5, FAR), (-FAR, -2), (6, 6.5), (9, FAR), (15, 16), (-40, -30), (25, FAR), (-FAR, FAR)],
)
def test_truncated_normal_has_its_distribution(low, high):
    u = (np.arange(2000) + 0.5) / 2000
    x = np.array([truncated_normal(float(low), float(high), v) for v in u])
    assert (np.diff(x) >= 0).all()
    assert x.min() >= low
    assert x.max() <= high
    bounds = (-high, -low) if low > 0 else (low, high)
    exact = np.sort(-stats.truncnorm.ppf(u, *bounds)) if low > 0 else stats.truncnorm.ppf(u, *bounds)
    assert np.abs(x - exact).max() < 1e-3 * max(1, abs(exact).max() / 10)


@pytest.mark.parametrize(("power", "up", "down"), [(6000, 3400, 30), (-200, 50, 400), (3, 2, 1)])
def test_log_sizes_have_their_distribution(power, up, down):
    rng = np.random.default_rng(1)
    drawn = np.array([draw_log_size(rng, power, up, down) for _ in range(4000)])
    x = np.linspace(drawn.min() - 0.5, drawn.max() + 0.5, 100_001)
    height = power * x - up * np.exp(2 * x) - down * np.exp(-2 * x)
    below = np.cumsum(np.exp(height - height.max()))
    assert stats.kstest(drawn, lambda q: np.interp(q, x, below / below[-1])).pvalue > 1e-3


def test_gamma_draws_have_their_distribution():
    for shape in (2.5, 5.0, 400.0):
        draws = [gamma_draw(shape, row, 3, USER_SCALES, 17) for row in range(4000)]
        assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-3


def normals(n, p, sweep, stream, seed):
    z = np.zeros((n, p))
    for r in range(n):
        for j in range(0, p, 2):
            bits = philox.py_func(r, j, sweep, stream, seed)
            z[r, j] = ndtri(uniform.py_func(bits[0], bits[1]))
            if j + 1 < p:
                z[r, j + 1] = ndtri(uniform.py_func(bits[2], bits[3]))
    return z


def slow_sweep(s):
    """One sweep in plain NumPy, from the formulas, given the same random numbers."""
    d, seed, sweep, old = s.d, s.seed, s.sweeps, s.thresholds.copy()
    x, xb, z, zb = s.user_side.rows[:, :d], s.user_side.bias, s.item_side.rows[:, :d], s.item_side.bias
    su, ti, noise, y = s.user_side.scale.copy(), s.item_side.scale.copy(), s.noise, s.y.copy()
    f = (x[s.users] * z[s.items]).sum(1) + xb[s.users] + zb[s.items]
    sd = su[s.users] * ti[s.items]
    rng = host_rng(seed, sweep, HOST)
    if s.n_levels == 1:
        rng.random(2)
        rate = defaults.NOISE_RATE + (((y - f) / sd) ** 2).sum() / 2
        noise = rate / rng.gamma(defaults.NOISE_SHAPE + len(y) / 2)
    else:
        counts = np.bincount(s.levels, minlength=s.n_levels)
        new = old.copy()
        step = 1 / np.sqrt(np.maximum(np.minimum(counts[:-1], counts[1:]), 1))
        new[1:-1] += rng.standard_normal(s.n_levels - 1) * step
        chance = np.log(rng.random(s.n_levels + 1))

        def like(t):
            chances = ndtr((t[s.levels + 1] - f) / sd) - ndtr((t[s.levels] - f) / sd)
            prior = -(t[1:-1] ** 2).sum() / (2 * defaults.THRESHOLD_SD**2)
            return np.log(chances).sum() + prior if (np.diff(t) > 0).all() and (chances > 0).all() else -np.inf

        for parity in (1, 0):
            for k in range(1, s.n_levels):
                if k % 2 == parity:
                    tried = old.copy()
                    tried[k] = new[k]
                    if chance[k] < like(tried) - like(old):
                        old = tried
        for k in range(len(y)):
            bits = philox.py_func(k, 0, sweep, LATENT, seed)
            low, high = (old[s.levels[k]] - f[k]) / sd[k], (old[s.levels[k] + 1] - f[k]) / sd[k]
            a, b, u = ndtr(low), ndtr(high), uniform.py_func(bits[0], bits[1])
            tail = low > 0
            v = -ndtri(ndtr(-high) + (1 - u) * (ndtr(-low) - ndtr(-high))) if tail else ndtri(a + u * (b - a))
            y[k] = f[k] + sd[k] * v
    p = d + 1
    rows = {}
    for side, other, code, others, scale, other_scale, streams in (
        (s.user_side, s.item_side, s.users, s.items, su, ti, (USER_SCALES, USERS)),
        (s.item_side, s.user_side, s.items, s.users, ti, su, (ITEM_SCALES, ITEMS)),
    ):
        own, opposite = rows.get("users"), None
        left = np.c_[side.rows[:, :d], side.bias]
        right = np.c_[other.rows[:, :d], np.ones(other.n)] if own is None else np.c_[own[:, :d], np.ones(other.n)]
        bias = other.bias if own is None else own[:, d]
        drawn, eps = np.zeros((side.n, p)), normals(side.n, p, sweep, streams[1], seed)
        for r in range(side.n):
            m = np.flatnonzero(code == r)
            target, w = y[m] - bias[others[m]], other_scale[others[m]] ** -2
            q = right[others[m]]
            rest = (w * (target - q @ left[r]) ** 2).sum() / noise
            shape = s.scale_shape
            scale[r] = math.sqrt((shape + rest / 2) / gamma_draw(shape + len(m) / 2, r, sweep, streams[0], seed))
            w = w / (noise * scale[r] ** 2)
            precision = side.prior.precision + (q * w[:, None]).T @ q
            mean = side.columns.values[r] @ side.prior.coefficients
            centre = np.linalg.solve(precision, side.prior.precision @ mean + q.T @ (w * target))
            root = np.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1].T  # lower, precision = root' root
            drawn[r] = centre + np.linalg.solve(root, eps[r])
        rows["users" if opposite is None and own is None else "items"] = drawn
    u, v = rows["users"], rows["items"]
    if s.n_levels > 1:
        f = (u[s.users, :d] * v[s.items, :d]).sum(1) + u[s.users, d] + v[s.items, d]
        up = (((y - f) / (su[s.users] * ti[s.items])) ** 2).sum() + ((old[1:-1] / defaults.THRESHOLD_SD) ** 2).sum()
        down = (np.trace(s.user_side.prior.precision) + s.item_side.prior.precision[d, d]) / s.w
        power = len(y) + s.n_levels - 1 - (p + 1) * s.row_df
        c = math.exp(draw_log_size(rng, power, up / 2, down / 2))
        old[1:-1] *= c
        u *= c
        v[:, d] *= c
    return old, noise, y, su, ti, u, v


@pytest.mark.parametrize("n_levels", [1, 2, 3, 6])
def test_one_sweep_agrees_with_slow_numpy(n_levels):
    users, items, ratings, columns = world(n_levels, n_levels=n_levels)
    s = Sampler(users, items, ratings, n_levels, *columns, d=3, seed=2**40 + 5)
    moved = n_levels == 1
    for _ in range(6):
        thresholds, noise, y, su, ti, u, v = slow_sweep(s)
        before = s.thresholds
        s.sweep()
        moved = moved or bool((before != s.thresholds).any())
        compare(s, (thresholds, noise, y, su, ti, u, v))
    assert moved


def compare(s, slow_results):
    thresholds, noise, y, su, ti, u, v = slow_results
    for ours, slow in (
        (s.thresholds, thresholds), (s.noise, noise), (s.y, y), (s.user_side.scale, su), (s.item_side.scale, ti),
        (np.c_[s.user_side.rows[:, :3], s.user_side.bias], u), (np.c_[s.item_side.rows[:, :3], s.item_side.bias], v),
    ):  # fmt: skip
        assert np.abs(ours - slow).max() < 1e-10


def simulate(s, rng):
    """Draw ratings from the sampler's own state."""
    d = s.d
    u, v = s.user_side, s.item_side
    f = (u.rows[s.users, :d] * v.rows[s.items, :d]).sum(1) + u.bias[s.users] + v.bias[s.items]
    y = f + math.sqrt(s.noise) * u.scale[s.users] * v.scale[s.items] * rng.standard_normal(len(f))
    if s.n_levels == 1:
        s.y[:] = y
    else:
        s.levels[:] = np.searchsorted(s.thresholds[1:-1], y)


def draw_prior(s, rng):
    """Put the sampler's state to a draw from the prior."""
    d, p = s.d, s.d + 1
    for side in (s.user_side, s.item_side):
        groups = side.columns.groups
        side.prior.column_precision = rng.gamma(s.column_shape, 1 / s.column_shape, groups.max() + 1)[groups]
        side.prior.precision = np.atleast_2d(stats.wishart(s.row_df, s.w * np.eye(p)).rvs(random_state=rng))
        root = np.linalg.cholesky(np.linalg.inv(side.prior.precision))
        c = len(groups)
        noise = rng.standard_normal((c, p)) @ root.T
        side.prior.coefficients = noise / np.sqrt(side.prior.column_precision)[:, None]
        x = side.columns.values @ side.prior.coefficients + rng.standard_normal((side.n, p)) @ root.T
        side.rows[:, :d], side.bias[:] = x[:, :d], x[:, d]
        side.scale[:] = 1 / np.sqrt(rng.gamma(s.scale_shape, 1 / s.scale_shape, side.n))
    while s.n_levels > 1:
        inner = defaults.THRESHOLD_SD * rng.standard_normal(s.n_levels - 1)
        if (np.diff(inner) > 0).all():
            s.thresholds = np.r_[-FAR, inner, FAR]
            return
    s.noise = defaults.NOISE_RATE / rng.gamma(defaults.NOISE_SHAPE)


def statistics(s):
    """37 numbers that touch every conditional; logs and signs, for tails are heavy."""
    found = []
    d = s.d
    for side in (s.user_side, s.item_side):
        x = np.c_[side.rows[:, :d], side.bias]
        prior = side.prior
        log_abs = np.log(np.abs(x) + 1e-300)
        found += [np.log(side.scale).mean(), np.log(side.scale).std(), np.log(side.scale[0]), side.scale[1] ** -2]
        found += [np.linalg.slogdet(prior.precision)[1], np.log(prior.precision[0, 0]), np.log(prior.precision[d, d])]
        found += [prior.precision[0, d] / math.sqrt(prior.precision[0, 0] * prior.precision[d, d])]
        found += [np.log(prior.column_precision[k]) for k in (0, 1, 3)]
        found += [np.arctan(prior.coefficients[1, d]), np.log(np.abs(prior.coefficients[3]) + 1e-300).mean()]
        found += [log_abs[:, 0].mean(), log_abs[:, d].mean(), np.arctan(x[0, d])]
    f = (s.user_side.rows[s.users, :d] * s.item_side.rows[s.items, :d]).sum(1)
    found += [np.arctan(f[0]), np.log(np.abs(f)).mean()]
    t = s.thresholds[1:-1]
    found += [t[0] if len(t) else math.log(s.noise), np.log(t[-1] - t[0]) if len(t) > 1 else 0.0]
    found += [float(s.levels.mean()) if s.n_levels > 1 else np.arctan(s.y).mean()]
    return found


@pytest.mark.parametrize("n_levels", [3, 1] if LONG else [3])
def test_geweke_joint_distribution(n_levels, monkeypatch):
    """Prior draws and draws by turns of (sweep, new data) have one distribution: Geweke (JASA 99, 2004), |z| < 4."""
    steps = 60_000 if LONG else 6000
    monkeypatch.setattr(defaults, "THRESHOLD_SD", 1.0)  # tails that a chain of this length visits often enough
    users, items, ratings, columns = world(1, n=100, n_levels=n_levels)
    columns = [replace(side, values=side.values * np.array([0.5] + 5 * [0.3])) for side in columns]
    s = Sampler(users, items, ratings, n_levels, *columns, d=2, seed=3, column_shape=5.0, prior_scale=0.3, row_df=13)
    rng = np.random.default_rng(4)
    marginal = []
    for _ in range(steps // 2):
        draw_prior(s, rng)
        simulate(s, rng)
        marginal.append(statistics(s))
    successive = []
    draw_prior(s, rng)
    simulate(s, rng)
    for _ in range(steps):
        s.sweep()
        simulate(s, rng)
        successive.append(statistics(s))
    a, b = np.array(marginal), np.array(successive)
    assert a.shape[1] >= 35
    batches = b.reshape(50, -1, b.shape[1]).mean(axis=1)
    error = np.sqrt(a.var(axis=0) / len(a) + batches.var(axis=0, ddof=1) / 50)
    z = (a.mean(axis=0) - b.mean(axis=0)) / np.maximum(error, 1e-12)
    assert np.abs(z).max() < 4, np.round(z, 1)


def test_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    n_users, n_items, n = 700, 300, 30_000
    pairs = rng.permutation(n_users * n_items)[:n]
    columns = Columns.of(n_users, rng.standard_normal((n_users, 3))), Columns.of(n_items)
    found = []
    for threads in (1, 2, 3):
        s = Sampler(pairs // n_items, pairs % n_items, pairs % 5, 5, *columns, seed=1, threads=threads)
        for _ in range(3):
            s.sweep()
        found.append((s.user_side.rows.tobytes(), s.item_side.rows.tobytes(), s.y.tobytes(), s.thresholds.tobytes()))
    assert found[0] == found[1] == found[2]


def test_seeds_and_sweeps_give_other_draws():
    users, items, ratings, columns = world(0)
    a, b = (Sampler(users, items, ratings, 3, *columns, d=2, seed=seed) for seed in (0, 1))
    a.sweep()
    b.sweep()
    first = a.user_side.rows.copy()
    a.sweep()
    assert not np.allclose(first, a.user_side.rows)
    assert not np.allclose(first, b.user_side.rows)
    assert HOST not in (LATENT, USERS, ITEMS)
