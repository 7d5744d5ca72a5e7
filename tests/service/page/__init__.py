"""The pages of the service, in a real browser."""

import pytest

# Before it is imported, so that a failed assertion in it says what it compared.
pytest.register_assert_rewrite("tests.service.page.live")
