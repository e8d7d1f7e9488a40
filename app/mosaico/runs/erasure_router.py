"""REST endpoint for a request of deletion."""

from pydantic import Field, model_validator

from mosaico.access.deps import ADMIN
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import ShortText, WireModel
from mosaico.core.web.deps import Res
from mosaico.core.web.routes import Router
from mosaico.runs.erasure import NOT_REACHED, ErasureSubject, erase_texts

router = Router(prefix="/local-datasets", tags=["local datasets"])


class TextErasure(WireModel):
    """Whose texts to erase: one of `itemId` and `userId`; `dataset` is that of the item."""

    item_id: ShortText | None = Field(default=None, description="Item whose texts are erased.")
    user_id: ShortText | None = Field(
        default=None,
        description="User, as in the attribute `user` of traces, whose texts are erased.",
    )

    dataset: ShortText | None = Field(
        default=None,
        description="Dataset of the item. Without it, the item must not be in several datasets.",
    )

    @model_validator(mode="after")
    def _require_one(self) -> "TextErasure":
        if (self.item_id is None) == (self.user_id is None):
            raise ValueError("send either itemId or userId")
        if self.dataset is not None and self.item_id is None:
            raise ValueError("send dataset with itemId only: a user is erased from all datasets")
        return self


class ErasedTextsView(WireModel):
    """What was erased: the texts of `traces` and of `items` of datasets, and received `spans`; and in a sentence what was
    not.
    """

    traces: int
    spans: int
    items: int = Field(description="Items of datasets whose texts were erased, in all versions.")
    not_reached: str = Field(description="What the erasure does not reach, in a sentence.")


@router.post("/purge", dependencies=ADMIN, responses=CONFLICT)
def purge_texts(body: TextErasure, res: Res) -> ErasedTextsView:
    """Erase the texts of an item or of a user from all uploads, runs, datasets and received spans. Values and verdicts stay. It
    cannot be undone.
    """
    subject = ErasureSubject(item_id=body.item_id, user_id=body.user_id, dataset=body.dataset)
    erased = erase_texts(res.db, subject, res.clock())
    return ErasedTextsView(
        traces=erased.traces, spans=erased.spans, items=erased.items, not_reached=NOT_REACHED
    )
