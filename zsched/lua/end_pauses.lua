-- end_pauses: resume schedules that are paused until now.
--
-- KEYS   lease @schedules @trouble resumes wake
-- ARGV   @prefixes
--        @term
--        seen_version place missed   as in resume.lua: '', paused, skip
--        ...             two texts per schedule, as there
-- RETURNS  OK, now ms, then as resume.lua  |  STALE  |  SERVER
-- LOGS   resume: as resume.lua
-- include lib/fence.lua
-- include lib/resume.lua

return resume_all(true)
