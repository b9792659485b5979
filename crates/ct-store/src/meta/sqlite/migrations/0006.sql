-- Comments on steps that call no tool (`step` counts from 0).
ALTER TABLE trajectory_comments ADD COLUMN step INTEGER;
