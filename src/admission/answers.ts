/**
 * What the admission core answers to the HTTP surface: the border between `routes/` and the protocol.
 */
import type { ClusterView, JoinRequest, MemberId, RefuseReason, Verdict, WaitReason } from './types.ts'

/** Where a joiner stands, for the body of a 503 and for people. */
export interface Standing {
  /** The one that is being let in now. */
  readonly pending: { readonly node: string; readonly peerAddress: string; readonly memberId: MemberId | undefined } | undefined
  readonly line: { readonly position: number | undefined; readonly length: number }
  /** Members that keep the joiner out (dead voters, the holder of a name), by hexadecimal ID. */
  readonly members: readonly string[]
}

export type JoinAnswer =
  | {
    readonly kind: 'member'
    readonly memberId: MemberId
    /** Decimal. */
    readonly clusterId: string
    readonly role: 'learner' | 'voter'
    /** `name=url`, one entry a member, names unique, the joiner's own exactly as it sent it. */
    readonly initialCluster: readonly string[]
  }
  | { readonly kind: 'wait'; readonly reason: WaitReason; readonly detail: string; readonly retryAfterS: number; readonly standing: Standing }
  | { readonly kind: 'refuse'; readonly reason: RefuseReason | 'TokenUsedUp' | 'TokenStoreUnavailable' | 'BadPeerAddress'; readonly detail: string; readonly standing: Standing }
  /** The client hung up before MemberAdd was sent: nothing was added, nobody is there to answer. */
  | { readonly kind: 'gone' }

export type RedeemResult = { readonly kind: 'redeemed' } | { readonly kind: 'used-up' } | { readonly kind: 'unavailable'; readonly detail: string }

export interface JoinOptions {
  /** How long the request may be held when it has to wait. Milliseconds; 0 answers at once. */
  readonly holdMs: number
  /** Aborts when the client has hung up. */
  readonly hangUp: AbortSignal
  /**
   * Called once before a membership is made (never for a resume): counts the use of the token, idempotent for one joiner.
   * Absent when the token has no limit.
   */
  readonly redeem?: () => Promise<RedeemResult>
}

/** The one desk every join request goes to. */
export interface Gatekeeper {
  join: (request: JoinRequest, options: JoinOptions) => Promise<JoinAnswer>
  /** The verdict alone: nothing is changed, no place in the line is taken. */
  dryRun: (request: JoinRequest) => Promise<{ readonly verdict: Verdict; readonly retryAfterS: number; readonly standing: Standing }>
  /** Answers every held request with a 503 and a short Retry-After, and takes no more. */
  drain: () => void
}

/** The shared view, for routes that only show it. */
export interface ViewSource {
  /** The newest view that is at most `maxAgeMs` old, read anew when there is none; undefined when etcd cannot be reached at all. */
  current: (maxAgeMs: number) => Promise<ClusterView | undefined>
  /** Why the last reading failed or was stale; undefined when it was good. */
  trouble: () => string | undefined
}
