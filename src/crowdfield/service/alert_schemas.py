"""The bodies of requests and answers about alerts."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from crowdfield.service.schemas import Name, Slug, Strict

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class NewAlert(Strict):
    """The condition of an alert, and where its messages go."""

    districts: Slug = Field(description="a set of districts of this map")
    area: Name | None = Field(None, description="one of the districts; each of them by default")
    state: Name
    probability: Share = Field(
        0.7, description="a cell counts if the state is more probable than this there, and the cell is not unknown"
    )
    share: Share = Field(
        0.05,
        description="a message is sent when the cells that count make up more than this share of a district (of its "
        "people, if the map has weights)",
    )
    clear: Share | None = Field(
        None, description="the alert is over when the share falls below this; 0.8 times `share` by default"
    )
    webhook: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        None, description="a URL whose origin is listed in CROWDFIELD_ALERT_HOSTS"
    )
    email: (
        Annotated[str, Field(max_length=254, pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$")] | None
    ) = None

    @model_validator(mode="after")
    def _consistent(self) -> "NewAlert":
        if (self.webhook is None) == (self.email is None):
            raise ValueError("give either a webhook or an email")
        if self.clear is not None and self.clear > self.share:
            raise ValueError("clear must not be above share: the alert would be over as soon as it began")
        return self


class AlertFields(BaseModel, frozen=True):
    """The fields of an alert that admins see; `alerts.Alert` adds those that only the service uses."""

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
    share: float = Field(description="the share of the district when the message was queued")
    since: float


class MessageOut(BaseModel):
    id: str
    created: float
    attempts: int
    state: str = Field(description="waiting, sent, or given up")
    error: str | None


class AlertOut(AlertFields):
    """An alert with the districts over its limit and its last messages."""

    over: list[AreaOver]
    messages: list[MessageOut] = Field(description="the newest messages first")


class AlertMade(AlertFields):
    """The answer to a request that sets an alert."""

    secret: str = Field(description="the key that signs messages to the webhook; shown only once")
