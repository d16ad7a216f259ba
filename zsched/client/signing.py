"""
Signing what waits, once more: after a rotation of keys, before signatures expire, or when signing begins.

A schedule is read, checked, and put again as it is, if it is still as it was read. Only its signature is new, so it
keeps its times. A schedule with a signature that is not good is left as it is: another program may have made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zsched.client.many import BulkPut
from zsched.client.rows import PutItem, Recurring
from zsched.core.repair import IdOutcome
from zsched.core.signed import signature_behind
from zsched.errors import Contended, InvalidSchedule, ZschedError
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader, StoredSchedule
from zsched.storage.refusals import is_changed
from zsched.storage.signer import Signer
from zsched.storage.signing import BadSignature


def sign_again(
    ids: Sequence[str],
    reader: Reader,
    keys: Keys,
    signer: Signer,
    item_of: Callable[[StoredSchedule], PutItem],
    puts: BulkPut,
    *,
    takes_unsigned: bool,
) -> Mapping[str, IdOutcome]:
    """Sign the schedules *ids* again: signed, or unchanged. Errors: another program made or changed it."""
    outcomes: dict[str, IdOutcome] = {id: IdOutcome("not_found") for id in ids}
    items: list[tuple[int, PutItem]] = []
    for found in reader.find_many(ids):
        id = found.schedule.id
        try:
            _demand_good(found, keys, signer, takes_unsigned)
            item = item_of(found)
        except ZschedError as error:
            outcomes[id] = IdOutcome("", error=error)
            continue
        if _signature_of(item) == found.signature:
            outcomes[id] = IdOutcome("unchanged")
        else:
            items.append((len(items), item))
    for page in puts.put(items):
        for outcome in page:
            word = outcome.word.decode()
            if is_changed(word):
                problem = f"schedule {outcome.id!r} was changed meanwhile; sign it once more"
                outcomes[outcome.id] = IdOutcome("", error=Contended(problem))
            else:
                outcomes[outcome.id] = IdOutcome("signed", error=outcome.refusal(keys))
    return outcomes


def _demand_good(found: StoredSchedule, keys: Keys, signer: Signer, takes_unsigned: bool) -> None:
    """Raise InvalidSchedule unless *found* may be signed."""
    schedule = found.schedule
    if takes_unsigned and not found.signature:
        return
    try:
        signer.check_found(schedule.id, schedule.next_ms if schedule.kind == "once" else None, found.fields)
    except BadSignature as error:
        remedy = "schedule it again" if found.signature else "schedule it again, or give unsigned=True (--unsigned)"
        raise InvalidSchedule("id", schedule.id, str(error), remedy) from error


def _signature_of(item: PutItem) -> bytes:
    if isinstance(item, Recurring):
        return item.record.signature
    return signature_behind(item[1][2])[1]
