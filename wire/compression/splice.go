package compression

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A splice is one compressed stream put together of sections that were
// compressed apart from each other, at other times. Readers see a single zstd
// frame (or, with None, just bytes): hg's reader stops at the end of the first
// frame, so frames behind each other would not do.
//
// A frame is a header and blocks (RFC 8878, 3.1.1). Blocks can follow blocks
// of another frame if they ask for nothing of those before them. What the first
// ones of a frame take for granted are the three offsets that were used last,
// which are 1, 4 and 8 at the start. So between two sections stand blocks that
// set these offsets, and what such blocks decode to, zeros, is for the writer
// to find a use for.

// Splices tells whether sections of an engine can be put together.
func (e Engine) Splices() bool { return e == None || e == Zstd }

// zstdSpliceHead is the header of a frame without checksum and without the
// size of its content: magic, descriptor, window.
var zstdSpliceHead = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, spliceWindow}

// spliceWindow is the window descriptor of maxWindowBytes, which no section's
// encoder exceeds: 2^(10+13).
const spliceWindow = 13 << 3

var _ [maxWindowBytes - 1<<23]byte // they are equal

// SpliceHead returns what a spliced stream begins with.
func (e Engine) SpliceHead() []byte {
	if e == Zstd {
		return zstdSpliceHead
	}
	return nil
}

const (
	// SpliceZeros is how many zeros a seam decodes to.
	SpliceZeros = seamBlocks * seamMatch
	// SpliceBefore is how many zeros have to stand before a seam.
	SpliceBefore = 8

	seamBlocks = 3
	seamMatch  = 34 // the longest match whose code needs no further bits
)

// zstdSeam is three blocks of 7 bytes: no literals, one sequence, the codes of
// its length of literals, offset and match length in RLE form, and the bits that
// complete the offset, below a one. Offsets are counted from 3 on, since lower
// values stand for those used before.
var zstdSeam = []byte{
	0x3c, 0x00, 0x00, 0x00, 0x01, 0x54, 0x00, 0x03, 0x1f, 0x0b, // 8 + 3 = 8 + 0b011
	0x3c, 0x00, 0x00, 0x00, 0x01, 0x54, 0x00, 0x02, 0x1f, 0x07, // 4 + 3 = 4 + 0b11
	0x3c, 0x00, 0x00, 0x00, 0x01, 0x54, 0x00, 0x02, 0x1f, 0x04, // 1 + 3 = 4 + 0b00
}

// Seam returns what has to stand between two sections. It decodes to
// SpliceZeros zeros, if SpliceBefore zeros are before it.
func (e Engine) Seam() []byte {
	if e == Zstd {
		return zstdSeam
	}
	return make([]byte, SpliceZeros)
}

// Plain returns a section that was not compressed. It needs no seam.
func (e Engine) Plain(b []byte) []byte {
	if e != Zstd {
		return b
	}
	out := appendBlockHead(nil, rawBlock, len(b), false)
	return append(out, b...)
}

// NewSectionWriter returns a Writer that compresses a section to w; last ends
// the stream with it. Levels are those of NewWriter.
func NewSectionWriter(e Engine, level int, last bool, w io.Writer) (Writer, error) {
	if !e.Splices() {
		return nil, fmt.Errorf("sections of %s can't be put together", e)
	}
	if e == None {
		return plain{w}, nil
	}
	s := &sectionWriter{blocks: blockWriter{w: w, last: last}}
	var err error
	s.Writer, err = NewWriter(e, level, &s.blocks)
	return s, err
}

// sectionWriter compresses a section.
type sectionWriter struct {
	Writer
	blocks blockWriter
}

// Close ends the section.
func (s *sectionWriter) Close() error {
	return errors.Join(s.Writer.Close(), s.blocks.end())
}

// Types of blocks, in bits 1 and 2 of their header; bit 0 marks the last one
// of a frame, the others hold the size.
const (
	rawBlock     = 0
	rleBlock     = 1
	blockHeadLen = 3

	// maxFrameHeadLen is the longest header: magic, descriptor, window,
	// dictionary, size.
	maxFrameHeadLen = 4 + 1 + 1 + 4 + 8
)

func appendBlockHead(b []byte, typ, size int, last bool) []byte {
	h := uint32(size)<<3 | uint32(typ)<<1
	if last {
		h |= 1
	}
	return append(b, byte(h), byte(h>>8), byte(h>>16))
}

// A blockWriter is written a frame and passes its blocks on, without the header
// before them and the checksum behind.
type blockWriter struct {
	w    io.Writer
	last bool // the frame's last block is the last of the splice

	head  []byte // collects a header, of the frame or of a block
	begun bool   // the frame's header is over
	left  int    // of the block that is being passed on
	ended bool   // the last block has begun
}

// Write implements io.Writer.
func (b *blockWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		used, err := b.step(p)
		if err != nil {
			return 0, err
		}
		p = p[used:]
	}
	return n, nil
}

// step takes some of p.
func (b *blockWriter) step(p []byte) (used int, err error) {
	switch {
	case b.left > 0:
		n := min(b.left, len(p))
		b.left -= n
		_, err := b.w.Write(p[:n])
		return n, err
	case b.ended:
		return len(p), nil // a checksum
	}
	b.head = append(b.head, p[0])
	if !b.begun {
		if b.begun = len(b.head) == frameHeadLen(b.head); b.begun {
			b.head = b.head[:0]
		}
		if len(b.head) > maxFrameHeadLen {
			return 0, errors.New("header of a zstd frame doesn't end")
		}
		return 1, nil
	}
	if len(b.head) < blockHeadLen {
		return 1, nil
	}
	return 1, b.startBlock()
}

// startBlock passes on the header of a block.
func (b *blockWriter) startBlock() error {
	h := int(b.head[0]) | int(b.head[1])<<8 | int(b.head[2])<<16
	b.ended = h&1 != 0
	typ := h >> 1 & 3
	size := h >> 3
	if b.left = size; typ == rleBlock {
		b.left = 1
	}
	out := appendBlockHead(b.head[:0], typ, size, b.ended && b.last)
	b.head = b.head[:0]
	_, err := b.w.Write(out)
	return err
}

// end tells whether the frame came whole. Of nothing the encoder makes no frame.
func (b *blockWriter) end() error {
	if !b.begun && len(b.head) == 0 {
		if !b.last {
			return nil
		}
		_, err := b.w.Write(appendBlockHead(nil, rawBlock, 0, true))
		return err
	}
	if !b.ended || b.left > 0 {
		return errors.New("zstd frame was not written to its end")
	}
	return nil
}

// frameHeadLen returns the length of the frame header that begins with b; 0 as
// long as b doesn't tell.
func frameHeadLen(b []byte) int {
	const fixed = 5
	if len(b) < fixed {
		return 0
	}
	if binary.LittleEndian.Uint32(b) != binary.LittleEndian.Uint32(zstdSpliceHead) {
		return -1
	}
	d := b[4]
	single := d>>5&1 != 0
	n := fixed + []int{0, 1, 2, 4}[d&3]
	if !single {
		n++
	}
	switch d >> 6 {
	case 0:
		if single {
			n++
		}
	case 1:
		n += 2
	case 2:
		n += 4
	case 3:
		n += 8
	}
	return n
}
