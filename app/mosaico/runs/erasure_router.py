"""REST endpoint for a request of deletion."""

from pydantic import Field, model_validator

from mosaico.access.deps import ADMIN
from mosaico.core.schemas import ShortText, WireModel
from mosaico.core.web.deps import Res
from mosaico.core.web.routes import Router
from mosaico.runs.erasure import ErasureSubject, erase_texts

router = Router(prefix="/local-datasets", tags=["local datasets"])


class TextErasure(WireModel):
    """Whose texts to erase: one of `itemId` and `userId`."""

    item_id: ShortText | None = Field(default=None, description="Item whose texts are erased.")
    user_id: ShortText | None = Field(
        default=None,
        description="User, as in the attribute `user` of traces, whose texts are erased.",
    )

    @model_validator(mode="after")
    def _require_one(self) -> "TextErasure":
        if (self.item_id is None) == (self.user_id is None):
            raise ValueError("send either itemId or userId")
        return self


class ErasedTextsView(WireModel):
    """What was erased: the texts of `traces`, and received `spans`."""

    traces: int
    spans: int


@router.post("/purge", dependencies=ADMIN)
def purge_texts(body: TextErasure, res: Res) -> ErasedTextsView:
    """Erase the texts of an item or of a user from all uploads, runs and received spans. Values and verdicts stay. It
    cannot be undone.
    """
    subject = ErasureSubject(item_id=body.item_id, user_id=body.user_id)
    erased = erase_texts(res.db, subject, res.clock())
    return ErasedTextsView(traces=erased.traces, spans=erased.spans)
