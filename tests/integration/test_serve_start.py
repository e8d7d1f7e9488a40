"""`mosaico serve` waits for its API as long as the API makes progress."""

from mosaico.serve import StartProgress


def test_start_progress__ends_when_the_processor_time_stands_still() -> None:
    progress = StartProgress(now_s=0)

    # Little for each minute, as on a machine with a load of 20.
    assert not any(progress.is_stalled(minute * 59, cpu_s=minute * 1.5) for minute in range(60))
    # 60 s are READY_S; 0.9 s are less than PROGRESS_CPU_S.
    assert not progress.is_stalled(59 * 59 + 60, cpu_s=59 * 1.5)
    assert progress.is_stalled(59 * 59 + 61, cpu_s=59 * 1.5 + 0.9)
