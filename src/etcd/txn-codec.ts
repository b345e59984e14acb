/**
 * Transactions in our terms to etcd's and back. Revisions become bigint, keys lose their prefix.
 */
import type { ICompare, IKeyValue, IRangeRequest, IRequestOp, ITxnRequest, ITxnResponse } from 'etcd3'
import type { Compare, KeyValue, Op, Txn, TxnReply } from '../admission/ports.ts'

/** The end of the range of all keys with this prefix: its last byte one higher (etcd API, RangeRequest.range_end). */
export function prefixEnd (prefix: string): Buffer {
  const end = Buffer.from(prefix)
  const last = end.length - 1
  const byte = end[last]
  if (byte === undefined || byte === 0xff) throw new RangeError('a key prefix must be non-empty and must not end in 0xff')
  end[last] = byte + 1
  return end
}

/** Turns transactions in our terms into etcd's, with all keys under `prefix`. */
export function createTxnCodec (prefix: string): { encode: (txn: Txn, serializable?: boolean) => ITxnRequest; decode: (reply: ITxnResponse) => TxnReply } {
  const keyOf = (key: string): Buffer => Buffer.from(prefix + key)

  function encodeCompare (compare: Compare): ICompare {
    return 'createRevision' in compare
      ? { key: keyOf(compare.key), result: 'Equal', target: 'Create', create_revision: compare.createRevision.toString() }
      : { key: keyOf(compare.key), result: 'Equal', target: 'Mod', mod_revision: compare.modRevision.toString() }
  }

  function encodeOp (op: Op, serializable: boolean): IRequestOp {
    switch (op.op) {
      case 'get': return { request_range: { key: keyOf(op.key), serializable } }
      case 'range': {
        const range: IRangeRequest = { key: keyOf(op.prefix), range_end: prefixEnd(prefix + op.prefix), serializable }
        if (op.minModRevision !== undefined) range.min_mod_revision = op.minModRevision.toString()
        return { request_range: range }
      }
      case 'put': return { request_put: { key: keyOf(op.key), value: Buffer.from(op.value), lease: op.leaseId ?? '0' } }
      case 'delete': return { request_delete_range: { key: keyOf(op.key) } }
    }
  }

  function decodeKeyValue (kv: IKeyValue): KeyValue {
    return {
      key: kv.key.toString().slice(prefix.length),
      value: kv.value.toString(),
      createRevision: BigInt(kv.create_revision),
      modRevision: BigInt(kv.mod_revision),
      leaseId: kv.lease
    }
  }

  return {
    encode: (txn, serializable = false) => ({
      compare: txn.compare.map(encodeCompare),
      success: txn.success.map(op => encodeOp(op, serializable)),
      failure: (txn.failure ?? []).map(op => encodeOp(op, serializable))
    }),
    decode: reply => ({
      revision: BigInt(reply.header.revision),
      succeeded: reply.succeeded,
      // A oneof that is not set is absent, whatever etcd3's types say.
      reads: reply.responses.map(response => ((response as Partial<typeof response>).response_range?.kvs ?? []).map(decodeKeyValue))
    })
  }
}
