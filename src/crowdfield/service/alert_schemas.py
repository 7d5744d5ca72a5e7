"""What goes over the wire of alerts."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from crowdfield.service.schemas import Name, Slug, Strict

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class NewAlert(Strict):
    """When somebody is to be told, and where."""

    districts: Slug = Field(description="a set of districts of this map")
    area: Name | None = Field(None, description="one of the districts; each of them by default")
    state: Name
    probability: Share = Field(
        0.7, description="a cell counts where the state is more probable than this, and somebody knows"
    )
    share: Share = Field(
        0.05,
        description="told when more than this share of a district counts: of its people, where the map has weights",
    )
    clear: Share | None = Field(None, description="over when less than this counts; 0.8 times `share` by default")
    webhook: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        None, description="an address whose origin is in CROWDFIELD_ALERT_HOSTS"
    )
    email: (
        Annotated[str, Field(max_length=254, pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$")] | None
    ) = None

    @model_validator(mode="after")
    def _sound(self) -> "NewAlert":
        if (self.webhook is None) == (self.email is None):
            raise ValueError("give either a webhook or an email")
        if self.clear is not None and self.clear > self.share:
            raise ValueError("clear must not be above share, or the same alert would be told again and again")
        return self


class AlertFields(BaseModel, frozen=True):
    """An alert as admins see it; `alerts.Alert` is one with what else is kept."""

    id: str
    districts: str
    area: str | None
    state: str
    probability: float
    share: float
    clear: float
    webhook: str | None
    email: str | None
    created: float


class AreaOver(BaseModel):
    """A district that is over the limit of an alert."""

    area: str
    share: float = Field(description="when that was told")
    since: float


class MessageOut(BaseModel):
    id: str
    created: float
    attempts: int
    state: str = Field(description="waiting, sent, or given up")
    error: str | None


class AlertOut(AlertFields):
    """With what it has led to."""

    over: list[AreaOver]
    messages: list[MessageOut] = Field(description="the last few")


class AlertMade(AlertFields):
    """The answer to whoever set it."""

    secret: str = Field(description="messages to a webhook are signed with it; shown once")
