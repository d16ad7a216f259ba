"""Records, and their texts, which have each shape once."""

import pytest

from tests.builders.records import JOB, JOB_FIELDS, gone, job, one_shot, rule
from zsched.core.record import Portion, Record, records_in


def read(portion: Portion) -> list[Record]:
    return [record for _, record in records_in(portion.texts, 0)]


def test_records_with_the_same_fields_but_arguments_share_a_shape() -> None:
    portion = Portion([one_shot(), one_shot(id="b", job=job(data="other")), one_shot(id="c", job=job(origin="mail"))])

    found = read(portion)

    assert [b"shapes", b"2"] == portion.texts[:2]
    assert [b"call", b"other", b"call"] == [one.job[1] for one in found]
    assert found[0].shape is found[1].shape is not found[2].shape
    assert ["default", "default", "mail"] == [one.job_fields()[b"origin"].decode() for one in found]


def test_rules_with_other_texts_and_ids_share_a_shape() -> None:
    found = read(Portion([rule(), rule(id="s")]))

    assert found[0].shape is found[1].shape
    assert rule().own_fields() == found[1].own_fields()


def test_a_record_with_a_shape_is_the_same_as_the_whole_one() -> None:
    shaped = one_shot().shaped()

    assert (JOB_FIELDS["data"].encode(), None) == (shaped.job_fields()[b"data"], shaped.whole().shape)
    assert shaped.is_same(one_shot())
    assert len(JOB) == len(shaped.whole().job)


def test_a_shape_as_read_has_no_fields_that_a_restore_writes_anew() -> None:
    [found] = read(Portion([one_shot(job=[*job(), b"status", b"finished"])]))

    assert b"status" not in found.job_fields()


def test_a_record_without_fields_keeps_its_lane() -> None:
    assert ["low", "low"] == [one.lane for one in read(Portion([gone("a"), one_shot(job=())]))]


@pytest.mark.parametrize("cut", [-1, 3])
def test_texts_that_are_cut_are_refused(cut: int) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(records_in(Portion([one_shot()]).texts[:cut], 0))
