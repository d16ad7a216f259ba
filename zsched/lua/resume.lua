-- resume: put paused or quarantined schedules back into their lanes.
--
-- KEYS   @schedules @trouble resumes wake op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        seen_version    resume only a schedule of this version; '' in any case
--        place           paused | quarantine: where they are
--        missed          fire: at its old due time, passed or not | skip: missed occurrences are recorded, not fired
--        ...             two texts per schedule, as in lib/resume.lua
-- RETURNS  OK, now ms, then per schedule: word, due ms or -
--        words: resumed skipped unchanged NOTFOUND QUARANTINED ENDED WRONGTYPE CHANGED:<present version>, AGAIN (read
--        and plan once more), BROKEN: quarantined, and what it needs is gone or broken; an archive may have it
-- LOGS   resume: rows = id, "<lane> <due>", after a skip "<lane> <due> <nominal> <passed>"; the nominal time is -
--        for a one-shot; by a leader, who paused it
-- include lib/op.lua
-- include lib/resume.lua

return answer(resume_all())
