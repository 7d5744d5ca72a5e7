"""How Sphinx builds the documentation site: `make docs`, offline, warnings are errors."""

import crowdfield

project = "crowdfield"
author = "The crowdfield developers"
copyright = author
release = version = crowdfield.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# Markdown: headings get anchors, so that pages can link to each other's sections.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# One page per public name, made from its docstring (docs/reference/api.rst lists them).
autosummary_generate = True
autosummary_imported_members = True
smartquotes_action = "De"  # dashes and ellipses; quotes of code stay straight
default_role = "py:obj"  # `fuse` in a docstring links to its page
autodoc_typehints = "none"  # numpydoc's parameter lists say the types
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the class template lists them, with their docstrings
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"crowdfield {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"source_repository": ""}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# The gallery's programs and pictures, and data files that pages link to, are copied as they are.
suppress_warnings = ["myst.header"]  # generated pages start below the first level


def _skip_member(app, what, name, member, skip, options):  # type: ignore[no-untyped-def]
    """Leave out what scikit-learn adds to every estimator for routing metadata, which its own pages explain."""
    return True if name == "get_metadata_routing" or name.endswith("_request") else None


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-skip-member", _skip_member)
