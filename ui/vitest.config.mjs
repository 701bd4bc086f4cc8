// One worker for each core, and not a process for each file: most of their time goes into loading modules.
export default { test: { pool: 'threads', isolate: false, testTimeout: 60_000 } };
