-- Whether there is something for `access_forget_...`.
SELECT 1 AS one
WHERE EXISTS (SELECT 1 FROM mulligan_audit WHERE at < :audited_before)
   OR EXISTS (SELECT 1 FROM mulligan_in_flight WHERE at < {{clock}} - :kept AND until < {{clock}})
   OR EXISTS (SELECT 1 FROM mulligan_setup_tokens WHERE until < {{clock}})
   OR EXISTS (SELECT 1 FROM mulligan_sign_in_links WHERE until < {{clock}})
   OR EXISTS (
       SELECT 1
       FROM mulligan_web_sessions
       WHERE used_at < {{clock}} - :unused OR begun_at < {{clock}} - :session_lasts
   )
   OR EXISTS (SELECT 1 FROM mulligan_request_rates WHERE full_at < {{clock}} - :idle)
