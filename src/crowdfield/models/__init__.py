"""Thin scikit-learn estimators: validate, call inference, store what was learned."""
