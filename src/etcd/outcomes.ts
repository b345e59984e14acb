/**
 * One table from what gRPC and etcd say to what it means for us. etcd's errors have to be told apart by their text:
 * several share a code, and two carry code 2 although etcd's own table says 9 (etcd 3.4 to 3.7, `toGRPCError`).
 * Whole messages are compared, for one is the beginning of another ("can only promote a learner member").
 */
import type { Failure, FailureKind } from '../admission/ports.ts'

/** gRPC status codes that mean something here. */
const CANCELLED = 1
const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4
const PERMISSION_DENIED = 7
const UNIMPLEMENTED = 12
const UNAUTHENTICATED = 16

const MESSAGES: ReadonlyMap<string, FailureKind> = new Map<string, FailureKind>([
  ['etcdserver: unhealthy cluster', 'unhealthy'],
  ['etcdserver: re-configuration failed due to not enough started members', 'not-enough-started'],
  ['etcdserver: too many requests', 'overloaded'],
  ['etcdserver: Peer URLs already exists', 'peer-url-exists'],
  ['etcdserver: member ID already exist', 'member-id-exists'],
  ['etcdserver: too many learner members in cluster', 'too-many-learners'],
  ['membership: too many learner members in cluster', 'too-many-learners'],
  ['etcdserver: can only promote a learner member', 'not-learner'],
  ['etcdserver: can only promote a learner member which is in sync with leader', 'not-in-sync'],
  ['etcdserver: member not found', 'member-not-found'],
  ['etcdserver: given member URLs are invalid', 'invalid'],
  ['etcdserver: rpc not supported for learner', 'learner-endpoint'],
  ['etcdserver: requested lease not found', 'lease-not-found'],
  ['etcdserver: mvcc: database space exceeded', 'no-space'],
  ['etcdserver: corrupt cluster', 'corrupt'],
  ['etcdserver: mvcc: required revision has been compacted', 'compacted'],
  ['etcdserver: permission denied', 'auth'],
  ['etcdserver: invalid auth token', 'auth'],
  ['etcdserver: user name is empty', 'auth'],
  ['etcdserver: authentication failed, invalid user ID or password', 'auth'],
  // The cluster version is not decided yet: a cluster that has only just formed.
  ['etcdserver: not capable', 'no-quorum'],
  ['etcdserver: no leader', 'no-quorum'],
  ['etcdserver: leader changed', 'no-quorum'],
  ['etcdserver: server stopped', 'no-quorum'],
  ['etcdserver: request timed out', 'no-quorum'],
  ['etcdserver: request timed out, possibly due to previous leader failure', 'no-quorum'],
  ['etcdserver: request timed out, possibly due to connection lost', 'no-quorum'],
  ['etcdserver: request timed out, waiting for the applied index took too long', 'no-quorum']
])

/**
 * What a gRPC status means.
 * @param code numeric gRPC status code
 * @param details the status text, without gRPC's own "14 UNAVAILABLE:" before it
 */
export function failureOf (code: number, details: string): Failure {
  return { kind: kindOf(code, details), message: details, code }
}

function kindOf (code: number, details: string): FailureKind {
  const known = MESSAGES.get(details)
  if (known !== undefined) return known
  // grpc-js 1.14: the picker had no connection to give, or the name did not resolve: the request never left.
  if (details.startsWith('No connection established') || details.startsWith('Name resolution failed')) return 'never-sent'
  // grpc-js 1.14: the deadline passed while the call still waited for a connection.
  if (code === DEADLINE_EXCEEDED && details.includes('Waiting for LB pick')) return 'never-sent'
  if (code === CANCELLED) return 'cancelled'
  if (code === UNAUTHENTICATED || code === PERMISSION_DENIED) return 'auth'
  if (code === INVALID_ARGUMENT || code === UNIMPLEMENTED) return 'invalid'
  return 'ambiguous'
}
