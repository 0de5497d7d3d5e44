"""One file per kind of fix: from a case to changes of the problem, cheapest first.

Prices are GPU-seconds. A change of rules or waiting loses no work and costs 0; moving and
stopping cost what preemption costs; GPUs that the job asks for and goes without count for an hour,
GPUs that have to be bought for a day, because nobody knows how long the job will run.
"""
