"""Three or more states without an order: one function per state.

    P(source s says l at i) ∝ exp(α_s a_l·g_i + b_sl),   P(t_i = j) ∝ exp(a h_j·g_i + c_j)
    g_i = f(x_i) + ε_i,   f = intercept, covariates and smooth part,   ε_i ~ N(0, τ² I)

Only differences of the states' functions matter, so that g has F = J − 1 components: contrasts, which a rotation takes
from one order of the states to any other (`scores`). A place has no one-dimensional grid any more. Instead q of all
weights and nuggets is one Gaussian with full covariance, and the expected log likelihood is bounded from below
(`readings`), so that the objective is a lower bound of log P(reports, sources, link | variances).
"""
