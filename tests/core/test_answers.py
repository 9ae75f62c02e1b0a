from realtime_engine.core.answers import HeldAnswers
from realtime_engine.core.messages import ActiveChanged, Attached


def test_an_answer_comes_when_its_steps_have_passed():
    answers = HeldAnswers()
    paused, resumed = ActiveChanged("a", False, epoch=1), ActiveChanged("b", False, epoch=1)
    answers.hold(paused, 1)
    answers.hold(resumed, 2)
    assert answers and answers.holds("a") and answers.holds("b") and not answers.holds("c")
    assert answers.step_passed() == [paused]
    assert not answers.holds("a")
    assert answers.step_passed() == [resumed]
    assert not answers and answers.step_passed() == []


def test_one_session_is_taken_out_in_its_order_and_the_others_stay():
    answers = HeldAnswers()
    first, other, second = ActiveChanged("a", False, epoch=1), Attached("b", epoch=1), ActiveChanged("a", True, epoch=1)
    for event in (first, other, second):
        answers.hold(event, 1)
    assert answers.take("a") == [first, second]
    assert answers.take() == [other]
    assert answers.take() == []
