import { spawn } from 'node:child_process'

/**
 * @typedef {object} Outcome
 * @property {boolean} ok - it ran and exited 0
 * @property {string} stdout
 * @property {string} stderr - or why it could not be started or was ended
 */

/**
 * Runs a command to its end and keeps what it says. Never rejects.
 *
 * @param {string} file
 * @param {readonly string[]} args
 * @param {{ timeoutMs: number, cwd?: string, env?: Record<string, string | undefined> }} options
 * @returns {Promise<Outcome>}
 */
export function run (file, args, { timeoutMs, cwd, env = process.env }) {
  return new Promise(resolve => {
    const child = spawn(file, args, { ...cwd === undefined ? {} : { cwd }, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', chunk => { stdout += chunk })
    child.stderr.setEncoding('utf8').on('data', chunk => { stderr += chunk })
    child.once('error', error => { resolve({ ok: false, stdout, stderr: error.message }) })
    child.once('close', (code, signal) => {
      if (signal !== null) stderr += `${file} was ended by ${signal}`
      resolve({ ok: code === 0, stdout, stderr })
    })
  })
}

/**
 * Runs a command whose output is for the user's eyes: all of it goes to stderr, since stdout is another program's.
 *
 * @param {string} file
 * @param {readonly string[]} args
 * @param {string} cwd
 * @returns {Promise<number>} its exit code; 1 when it could not be started or was ended by a signal
 */
export function runAloud (file, args, cwd) {
  return new Promise(resolve => {
    const child = spawn(file, args, { cwd, stdio: ['ignore', 2, 2] })
    child.once('error', error => { console.error(error.message); resolve(1) })
    child.once('close', code => { resolve(code ?? 1) })
  })
}
