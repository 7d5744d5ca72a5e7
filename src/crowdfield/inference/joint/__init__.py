"""Joint uncertainty of sources and field: one Gaussian q of the field's weights and of every source's logits.

The state of every place is summed out. With x_j = f_j + Σ log π_jc over the reports of a place, its log likelihood is
log Σ_j e^{x_j} − log Σ_j e^{f_j}: two normalisers. Given the weights w of the field the sources are independent,

    q(w) = N(ŵ, Σ),     q(v_s | w) = N(v̂_s + G_s (w − ŵ), Q_s),     rows of π_s = softmax(0, v_s),

so that the precision matrix has arrow form, and every term of the objective is an expectation in one dimension per
state. The objective includes the Kullback–Leibler divergence of field *and* sources: it judges steps, length-scales,
numbers of communities and starting points alike.

| module | what it holds |
|---|---|
| `rows` | rows of confusion matrices as Gaussians in logits |
| `sums` | one pass over the sites: q in, additive sums out |
| `state` | the state of the iteration, and q |
| `starting` | the state that a q of another engine implies |
| `seen` | states and q in the weights that few sites see |
| `updating` | sums at the q of an earlier fit, from those of that fit |
| `method` | q from a state, the objective, and the step to the next state |
"""
