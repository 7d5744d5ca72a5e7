"""Sources as instruments that read a latent appearance (docs/instrument.md).

    g_i = z(x_i)·β + h(x_i) + ε_i          appearance: intercept and covariates, smooth part, nugget
    h ~ GP(0, v k),   ε_i ~ N(0, τ²)
    P(source s says l at i) ∝ exp(α_s a_l g_i + b_sl)      sensitivity α_s, leans b_s, label scores a
    P(t_i = 1) = σ(a g_i + c)              the link to the truth, informed by checked places

The appearance of one place is one-dimensional, so it is integrated exactly, on a grid. The smooth part and β are
jointly Gaussian under q; sources, link and variances are at their posterior mode, and their uncertainty is combined
with that of the field after convergence (`coupled`).
"""
