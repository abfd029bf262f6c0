from __future__ import annotations
import os, random, sys, time
from collections import Counter
import logging
from tests.virtual import run, Stuck
from tests.fuzz.scene import Scene
from tests.fuzz.checks import faults_of, reopened, count

async def play(seed):
    scene = Scene(seed)
    await scene.play()
    faults = faults_of(scene)
    log = list(scene.journal.envelopes)
    count(scene, log)
    faults += await reopened(scene)
    return scene, faults

def one(seed):
    try:
        return run(play(seed))
    except Stuck as e:
        return None, [f"Stuck {e}"]

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    a,b=int(sys.argv[1]),int(sys.argv[2])
    reached=Counter(); kinds=Counter(); ex={}
    t=time.time()
    for s in range(a,b):
        try: scene,f=one(s)
        except Exception as e:
            import traceback
            tb=traceback.extract_tb(e.__traceback__)[-1]
            scene,f=None,[f"EXC {type(e).__name__} {e} {tb}"]
        if scene: reached+=scene.reached
        for x in f:
            import re
            k=re.sub(r"a(\.\d+)*","A",re.sub(r"\d+","N",x))[:70]
            kinds[k]+=1; ex.setdefault(k,(s,x[:600]))
    print(f"{time.time()-t:.1f}s"); 
    for k,v in sorted(reached.items()): print(f"  {k}: {v}")
    for k,v in kinds.most_common(): print(v,ex[k])
