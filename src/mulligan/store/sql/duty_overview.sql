-- One query for all duties of a worker: which have something to do, and which are paused. Mostly there is nothing.
SELECT {{duty_columns}}
