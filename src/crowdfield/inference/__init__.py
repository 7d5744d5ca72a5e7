"""Pure functions on arrays: the model's equations. No pandas, no scikit-learn, no input checks."""
